"""How the reference reads: an extension of griffe, and a hook that explains types.

The extension is for griffe, which reads signatures and docstrings for mkdocstrings:

- An annotated type shows as what a type checker sees: `Annotated[int, by(require_whole, 2, 9)]` as
  `int`. The limits stand in the description of the argument.
- A default that is a constant of the module shows as its value.
- Mathematics in docstrings is not taken for Markdown: in `softmax[ρ(u, ·)](s)` there is no link.
- Public names and pages of the documentation that a docstring mentions are links.

The hook fills the page reference/types.md with every type of attnrate that a public signature names
and that is no public name itself, so that each of them is a link.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "attnrate"
#: Where the page of types has the types that are found
PLACE = "<!-- types -->"

#: A type that has a name is shown by its definition if that has at most so many characters
LONGEST = 48

#: What follows a bracket in a formula, where Markdown would see a link
_FORMULA = re.compile(r"\]\((?!https?:)")
#: A page of the documentation, by its path in the repository
_PAGE = re.compile(r"\bdocs/([\w-]+)\.md\b")
#: Code of a few words on a page, not in a block
_SHORT = re.compile(r"(?<!</span>)<code>([^<]{1,30})</code>")
#: What search does with pages: the long tables of claims are no text to read, and the list of
#: changes names everything
_SEARCH = {"reproduction/claims.md": {"exclude": True}, "changelog.md": {"boost": 0.2}}
#: Code within a line
_CODE = re.compile(r"(`[^`]*`)")


class Readable(griffe.Extension):
    """Signatures without validators, docstrings without accidental markup."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Escape formulas in a docstring, and link what it mentions."""
        if obj.docstring is not None:
            own = {obj.name, *obj.members}
            own |= {one.name for one in obj.parameters} if obj.is_function else set()
            own |= (
                {*obj.parent.members} if obj.parent is not None and obj.parent.is_class else set()
            )
            names = frozenset(_public()) - own
            obj.docstring.value = escaped(obj.docstring.value, names)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Write the types of all parameters, results and fields as readers need them."""
        for one in _objects(pkg):
            if one.is_function:
                for parameter in one.parameters:
                    parameter.annotation = readable(parameter.annotation, pkg)
                    parameter.default = _value(parameter.default, one)
                one.returns = readable(one.returns, pkg)
            elif one.is_attribute:
                one.annotation = readable(one.annotation, pkg)


def _objects(one: griffe.Object) -> Iterator[griffe.Object]:
    """An object and everything that is defined in it."""
    yield one
    for overload in getattr(one, "overloads", None) or []:
        yield from [overload] if not isinstance(overload, str) else one.overloads[overload]
    for member in [*one.members.values()]:
        if not member.is_alias:
            yield from _objects(member)


def readable(annotation: Any, package: griffe.Module) -> Any:
    """A type without validators, and short types of our own for their names.

    `Annotated[int, by(...)]` becomes `int`, and so does a name for it, such as `Threads`. Names
    that stand for more, and those that the page of types explains by hand, stay.
    """
    return _mapped(without_validators(annotation), package)


def _mapped(annotation: Any, package: griffe.Module) -> Any:
    if isinstance(annotation, griffe.ExprName):
        meant = _meaning(annotation, package)
        return annotation if meant is None else _mapped(meant, package)
    for part in ("left", "right", "slice"):
        if isinstance(annotation, griffe.ExprBinOp | griffe.ExprSubscript) and hasattr(
            annotation, part
        ):
            inner = getattr(annotation, part)
            if part != "left" or isinstance(annotation, griffe.ExprBinOp):
                setattr(annotation, part, _mapped(inner, package))
    if isinstance(annotation, griffe.ExprTuple | griffe.ExprList):
        annotation.elements = [_mapped(one, package) for one in annotation.elements]
    return annotation


def _meaning(name: griffe.ExprName, package: griffe.Module) -> Any:
    """The type that a name of our own stands for, if the reference shows that instead."""
    path = name.canonical_path
    if not path.startswith(f"{package.path}.") or path in _by_hand() or path in _public_paths():
        return None
    try:
        one = package[path.removeprefix(f"{package.path}.")]
    except KeyError:
        return None
    if one.is_alias or not one.is_attribute or not isinstance(one.value, griffe.Expr):
        return None
    if isinstance(one.value, griffe.ExprCall):  # TypeVar("J", bound=Job) is any Job
        return next((it.value for it in one.value.arguments if _is_bound(it)), None)
    short = without_validators(one.value)
    return short if name.name.startswith("_") or len(str(short)) <= LONGEST else None


def _is_bound(argument: Any) -> bool:
    """Whether an argument of TypeVar is its bound."""
    return isinstance(argument, griffe.ExprKeyword) and argument.name == "bound"


def without_validators(annotation: Any) -> Any:
    """A type in which each `Annotated[T, ...]` has become `T`."""
    if isinstance(annotation, griffe.ExprSubscript):
        if annotation.canonical_name == "Annotated":
            inside = annotation.slice
            first = inside.elements[0] if isinstance(inside, griffe.ExprTuple) else inside
            return without_validators(first)
        annotation.slice = without_validators(annotation.slice)
    elif isinstance(annotation, griffe.ExprBinOp):
        annotation.left = without_validators(annotation.left)
        annotation.right = without_validators(annotation.right)
    elif isinstance(annotation, griffe.ExprTuple | griffe.ExprList):
        annotation.elements = [without_validators(one) for one in annotation.elements]
    return annotation


def _value(default: Any, function: griffe.Object) -> Any:
    """The value of a default that is a constant of the module, else the default itself."""
    if isinstance(default, griffe.ExprName) and default.name.isupper():
        constant = function.module.members.get(default.name)
        # a constant of another module is not loaded yet, and stays its name
        known = constant is not None and not constant.is_alias and constant.is_attribute
        if known and isinstance(constant.value, str):
            return constant.value
    return default


def escaped(docstring: str, names: frozenset[str] = frozenset()) -> str:
    """A docstring whose formulas are no links, and whose mentions of these public names are.

    Other code and the examples stay as they are.
    """
    lines = docstring.split("\n")
    return "\n".join(
        line if line.lstrip().startswith((">>>", "...")) else _escaped_line(line, names)
        for line in lines
    )


def _escaped_line(line: str, names: frozenset[str]) -> str:
    parts = _CODE.split(line)
    return "".join(_linked(part, names) for part in parts)


def _linked(part: str, names: frozenset[str]) -> str:
    """A part of a line, code or no code, as Markdown with links."""
    if part.startswith("`"):
        name = part.strip("`")
        return f"[{part}][{PACKAGE}.{name}]" if name in names else part
    return _PAGE.sub(r"[docs/\1.md](../\1.md)", _FORMULA.sub(r"\](", part))


# ---- the hook of mkdocs: search, short code, types in signatures


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Say what search is to find first, and explain the types of signatures on their page."""
    if page.file.src_uri in _SEARCH:
        page.meta["search"] = _SEARCH[page.file.src_uri]
    if PLACE not in markdown:
        return markdown
    found = {path: one for path, one in named_types().items() if path not in _by_hand()}
    sections: dict[tuple[str, str], list[str]] = {}
    for path, one in found.items():
        sections.setdefault((one.name.lstrip("_"), explained(one)), []).append(path)
    return markdown.replace(
        PLACE, "\n".join(starmap(_section, sorted(sections.items(), key=_by_name)))
    )


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Mark code within a line that is short, so that it is not broken at a hyphen."""
    return _SHORT.sub(r'<code class="short">\1</code>', html)


def _by_name(section: tuple[tuple[str, str], list[str]]) -> tuple[str, str]:
    (name, text), _ = section
    return name.lower(), text


def _section(key: tuple[str, str], paths: list[str]) -> str:
    """A heading that every path of the type leads to, with the explanation."""
    (name, text), (first, *others) = key, sorted(paths)
    if name in _public():  # and yet another type: say of which module
        name = f"{name} of {first.rpartition('.')[0]}"
    anchors = "".join(f"[](){{ #{path} }}\n" for path in others)
    return f"{anchors}\n### {name} {{ #{first} }}\n\n{text}\n"


@cache
def _by_hand() -> frozenset[str]:
    """The types that the page of types explains by hand."""
    page = (ROOT / "docs" / "reference" / "types.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"#(attnrate[\w.]+) }", page))


@cache
def named_types() -> dict[str, griffe.Object]:
    """The types of attnrate in public signatures that are no public names, by their paths."""
    package = griffe.load(
        PACKAGE,
        search_paths=[ROOT / "src"],
        extensions=griffe.load_extensions(Readable(), "dataclasses"),
        resolve_aliases=True,
    )
    public = {member.canonical_path for name in _public() if (member := package[name])}
    found: dict[str, griffe.Object] = {}
    waiting = [path for name in _public() for path in _types_of(package[name])]
    while waiting:
        path = waiting.pop()
        if path in found or path in public or not path.startswith(PACKAGE + "."):
            continue
        try:
            one = package[path.removeprefix(PACKAGE + ".")]
        except KeyError:
            continue  # a type parameter, or a name of a module that is not ours
        if one.canonical_path in public or one.is_module:
            continue
        if one.is_attribute:
            inner = [*_names(without_validators(one.value))]
            if isinstance(one.value, griffe.ExprName | griffe.ExprAttribute) and _foreign(inner):
                continue  # another name for a type of a library
            waiting.extend(inner)
        found[path] = one
    return found


def _foreign(paths: list[str]) -> bool:
    """Whether no type of attnrate is among these."""
    return not any(path.startswith(PACKAGE + ".") for path in paths)


@cache
def _public() -> list[str]:
    """The public names, by the list of `__init__.pyi`."""
    stub = (ROOT / "src" / PACKAGE / "__init__.pyi").read_text(encoding="utf-8")
    return [
        name.asname or name.name
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]


@cache
def _public_paths() -> frozenset[str]:
    """The paths at which the public names are defined, by the list of `__init__.pyi`."""
    stub = (ROOT / "src" / PACKAGE / "__init__.pyi").read_text(encoding="utf-8")
    return frozenset(
        f"{PACKAGE}.{node.module}.{name.name}"
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    )


def _types_of(one: griffe.Object | griffe.Alias) -> Iterator[str]:
    """The paths of the types in the signature of a public object, and of its public members."""
    if one.is_function:
        for parameter in one.parameters:
            yield from _names(parameter.annotation)
        yield from _names(one.returns)
        for overload in one.overloads or []:
            yield from _types_of(overload)
    elif one.is_attribute:
        yield from _names(one.annotation)
        if one.parent is not None and one.parent.is_module:
            yield from _names(without_validators(one.value))
    elif one.is_class:
        for name, member in one.members.items():
            if not name.startswith("_") or name == "__init__":
                yield from _types_of(member)


def _names(expression: Any) -> Iterator[str]:
    """The paths of all names in a type."""
    if isinstance(expression, griffe.Expr):
        for part in expression.iterate(flat=True):
            if isinstance(part, griffe.ExprName):
                yield part.canonical_path


def explained(one: griffe.Object) -> str:
    """What a type is: its definition, and what its docstring or the comment above it says."""
    if one.is_attribute:
        definition = f"`{without_validators(one.value)}`"
        said = one.docstring.value if one.docstring else _comment_above(one)
        return f"{definition}\n\n{said}" if said else definition
    if one.docstring is None:
        return ""
    first = one.docstring.value.split("\n\n")[0]
    sections = one.docstring.parse("google")
    fields = [
        f"- `{field.name}`: {' '.join(field.description.split())}"
        for section in sections
        if section.kind is griffe.DocstringSectionKind.attributes
        for field in section.value
    ]
    return "\n".join([first, "", *fields] if fields else [first])


def _comment_above(one: griffe.Object) -> str:
    """The comment `#: ...` directly above an assignment."""
    lines = Path(str(one.filepath)).read_text(encoding="utf-8").splitlines()[: one.lineno - 1]
    comment: list[str] = []
    while lines and lines[-1].startswith("#:"):
        comment.insert(0, lines.pop().removeprefix("#:").strip())
    return " ".join(comment)
