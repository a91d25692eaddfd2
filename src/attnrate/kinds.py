"""Kinds: functions and classes that a table of settings calls by a word, `kind`.

    @TARGETS.add("ramp")
    @checked
    def ramp(slope: Positive, length: Count = 16) -> Target: ...

    TARGETS.make({"kind": "ramp", "slope": 2.0})

Those of attnrate are found by being in a file of their room. A user's own are called
"module:name" (see `own.py`).
"""

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Generic, TypeVar

from attnrate.errors import AttnrateError, InputError, hint, is_out_of_memory
from attnrate.found import modules_of
from attnrate.own import fingerprint, is_importable, load, opened
from attnrate.settings import Table, filled, names_within

C = TypeVar("C", bound=Callable[..., Any])
M = TypeVar("M", bound=Callable[..., Any])


class Kinds(Generic[C]):
    """The functions or classes that the tables of one part can name by their `kind`.

    Args:
        part: The name of the tables: "target", "model".
        room: The package whose files add kinds; each must be `checked`.
        given: Parameters that every kind has and that the caller of `make` decides.
        without: Other parameters that are no settings, because they are no plain values.
        besides: Names that the tables of all kinds may have and that are no parameters.

    """

    def __init__(
        self,
        part: str,
        room: str,
        given: Collection[str] = (),
        without: Collection[str] = (),
        besides: Collection[str] = (),
    ) -> None:
        self._part, self._room, self._given = part, room, tuple(given)
        self._without = (*given, *without)
        self._besides = ("kind", *besides)
        self._known: dict[str, C] = {}
        self._registered: dict[str, tuple[Callable[..., Any], str | None]] = {}
        # by word: the user's function and its checked form
        self._own: dict[str, tuple[Callable[..., Any], C]] = {}

    def add(self, kind: str) -> Callable[[M], M]:
        """Mark a function or class of attnrate as the one that settings call `kind`.

        Args:
            kind: The word; no two files may use the same one.

        Returns:
            A decorator that gives back what it decorates.

        """

        def mark(made: M) -> M:
            called = vars(made).get("__init__", made)
            if not hasattr(called, "is_checked"):
                raise TypeError(f"{made.__qualname__}, {self._part}.kind = {kind!r}: not @checked")
            other = self._known.get(kind)
            if other is not None and other.__module__ != made.__module__:
                places = f"{other.__module__} and {made.__module__}"
                raise TypeError(f"{self._part}.kind = {kind!r} is taken: {places}")
            self._known[kind] = made  # type: ignore[assignment]
            return made

        return mark

    def words(self) -> list[str]:
        """The words of attnrate's own kinds, sorted."""
        return sorted(self._found)

    def register(self, word: str, made: Callable[..., Any], code: str | None = None) -> None:
        """Let settings of this process call a function that cannot be imported by `word`.

        This is for functions of a notebook or script, and for the workers that they are sent to.

        Args:
            word: "module:name", as `word_of` gives it.
            made: The function or class.
            code: Its fingerprint, where its source cannot be read, as in a worker; by default it is
                computed from the source.

        """
        self._registered[word] = made, code

    def registered(self, word: str) -> tuple[Callable[..., Any], str] | None:
        """What other processes have to register before they can use a word.

        Args:
            word: A kind.

        Returns:
            The function or class with its fingerprint; None if the word can be imported or is one
            of attnrate's own.

        """
        if word not in self._registered:
            return None
        return self._registered[word][0], self._own_kind(word)[2]

    def word_of(self, made: Callable[..., Any]) -> str:
        """The word by which settings call a function or class.

        Args:
            made: A kind of attnrate or the user's own. Where it cannot be imported by its name (it
                stands in a notebook, a script or another function), it is registered for this
                process.

        Returns:
            A word such as "spectral", or "module:name".

        """
        for word, known in self._found.items():
            if known is made:
                return word
        if not (inspect.isfunction(made) or inspect.isclass(made)):
            what = f"{self._part}.kind must be a word, a function or a class"
            way_out = f"Write a function that makes it, as def my_{self._part}(slope: float): …"
            raise InputError(what, made, f"{way_out}, and pass that function.")
        word = f"{made.__module__}:{made.__qualname__}"
        if not is_importable(made):
            self.register(word, made)
        return word

    def of(self, settings: Table) -> C:
        """The function or class that the settings name, `checked`; InputError if there is none."""
        word = self._word(settings)
        return self._own_kind(word)[1] if ":" in word else self._found[word]

    def complete(self, settings: Table) -> dict[str, Any]:
        """The settings with all defaults filled in.

        A kind of the user's own also gets `code`, the fingerprint of its source, so that results of
        an edited function are not taken for those of the old one.

        Args:
            settings: `kind` (a word, "module:name", or a function or class itself) and parameters.

        Returns:
            Plain values: the kind as a word, then every setting in the order of the parameters.
            InputError for a setting that is not known or missing, and for a `code` that is not that
            of the function as it is now.

        """
        word, made = self._word(settings), self.of(settings)
        why = f" for {self._part}.kind = {word!r}"
        given = {name: value for name, value in settings.items() if name != "code"}
        own = given if ":" in word else settings
        full = filled(self._part, own, made, self._without, self._besides, why)
        if ":" not in word:
            return {"kind": word, **full}
        code = self._own_kind(word)[2]
        if settings.get("code", code) != code:
            what = f"{self._part}.code is not that of {word} as it is now, {code}"
            raise InputError(what, settings["code"], f"Leave {self._part}.code out.")
        return {"kind": word, **full, "code": code}

    def make(self, settings: Table, **given: Any) -> Any:
        """Call the kind with its settings.

        Args:
            settings: Complete or not.
            **given: Values of the parameters that the caller decides.

        Returns:
            What the function or class gives. An InputError about one of its parameters names it
            with the part, as in "target.length".

        """
        word, made = self._word(settings), self.of(settings)
        besides = (*self._besides, "code") if ":" in word else self._besides
        values = {name: value for name, value in settings.items() if name not in besides}
        try:
            with names_within(f"{self._part}."):
                return made(**given, **values)
        except InputError as problem:
            raise self._prefixed(problem, values) from problem.__cause__
        except Exception as problem:
            if ":" not in word or isinstance(problem, AttnrateError) or is_out_of_memory(problem):
                raise
            raise self._failed(problem, word, values) from problem

    def _failed(self, problem: Exception, word: str, settings: Table) -> InputError:
        """The error of a user's function, with its line and the settings that it was given."""
        last = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        said = "".join(traceback.format_exception_only(problem)).strip().splitlines()[-1]
        what = f"{self._part}.kind = {word!r} fails for the settings {{value}} ({said}; {place})"
        return InputError(what, dict(settings), "Mend it, or leave these settings out.")

    def _prefixed(self, problem: InputError, settings: Table) -> InputError:
        """The error with "target." before the name of a setting that its sentence begins with."""
        first = re.match(r"\w*", problem.what)
        name = first.group() if first else ""
        if name not in settings:
            return problem
        remedy = re.sub(rf"(?<![\w.]){name}\b(?==)", f"{self._part}.{name}", problem.remedy)
        return InputError(f"{self._part}.{problem.what}", problem.value, remedy)

    def _word(self, settings: Table) -> str:
        kind = settings.get("kind")
        if callable(kind):
            return self.word_of(kind)
        if isinstance(kind, str) and (":" in kind or kind in self._found):
            return kind
        what = f"{self._part}.kind is " + ("missing" if kind is None else "not known")
        own = f'A function of your own is "module:name", as "mymodule:my_{self._part}".'
        raise InputError(what, kind, f"{hint(str(kind), self._found)} {own}")

    def _own_kind(self, word: str) -> tuple[Callable[..., Any], C, str]:
        """The user's function of that word, its checked form, and its fingerprint."""
        made, code = self._registered.get(word) or (load(self._part, word), None)
        called = f"{self._part}.kind = {word!r}"
        if word not in self._own or self._own[word][0] is not made:
            taken = (*self._besides, "code")
            ready: Any = opened(called, made, self._given, self._without, taken)
            self._own[word] = made, ready
        # anew each time: the function may be the same and one that it calls be another, as in a
        # notebook whose cell of helpers was run again
        made, ready = self._own[word]
        return made, ready, fingerprint(called, made) if code is None else code

    @functools.cached_property
    def _found(self) -> dict[str, C]:
        modules_of(self._room)
        return self._known
