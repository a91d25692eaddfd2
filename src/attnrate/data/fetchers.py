"""A program that fetches one file where every command of a client would also run its code.

It is started by its path, `python -P fetchers.py KIND ...`, and imports nothing of attnrate. The
file is written into the current folder. An error is one line on stderr.
"""

import ast
import os
import shutil
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from unearth.fetchers import Fetcher


def pip_settings() -> dict[str, str]:
    """The settings of pip on this machine, as pip lists them; lists are separated by spaces."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    # a pip that is set to be quiet would list nothing
    aloud = os.environ | {"PIP_QUIET": "0", "PIP_VERBOSE": "0"}
    listed = subprocess.run(command, env=aloud, stdout=subprocess.PIPE, text=True, check=False)
    if listed.returncode:
        sys.exit(f"pip could not list its settings (exit code {listed.returncode})")
    found: dict[str, str] = {}
    for section in ("global.", "download.", ":env:."):  # the later ones win, as they do in pip
        for line in listed.stdout.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section):
                found[name.removeprefix(section).replace("-", "_")] = str(ast.literal_eval(value))
    return found


def source_distribution(name: str, file: str) -> None:
    """Fetch a source distribution from where pip would fetch it.

    `pip download` itself would run the build of the package.
    """
    from unearth import Link, PackageFinder

    settings = pip_settings()
    indexes: list[str] = []
    if settings.get("no_index", "0").lower() in ("0", "false", "no", "off", ""):
        # without a place, a finder uses the usual index, as pip does
        (usual,) = (source["url"] for source in PackageFinder().sources)
        indexes = [settings.get("index_url", usual), *settings.get("extra_index_url", "").split()]
    session = _session(settings, indexes)
    there: list[str] = []
    problems: list[str] = []
    for place in (*settings.get("find_links", "").split(), *indexes):
        finder = PackageFinder(session, index_urls=[place], ignore_compatibility=True)
        if place not in indexes:
            finder.sources = [{"url": place, "type": "find_links"}]
        try:
            for found in finder.find_all_packages(name, allow_yanked=True):
                there.append(found.link.filename)
                if found.link.filename == file:
                    came = finder.download(found.link, ".", hashes={})  # verified by who asked
                    if not os.path.exists(file):  # a file of this machine is not copied
                        shutil.copyfile(came, file)
                    return
        # a place that does not answer is skipped, as pip does
        except Exception as problem:
            problems.append(f"{Link(place).redacted} gave {_line(problem)}")
    problems.append(f"of {name} there is {', '.join(there[:3]) or 'nothing'}")
    sys.exit(f"No matching distribution found for {file}: {'; '.join(problems)}")


def _session(settings: dict[str, str], indexes: list[str]) -> "Fetcher":
    """A client that reaches indexes as pip does: with its proxy, certificates and passwords."""
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    authority = settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE")
    session = PyPIClient(
        trusted_hosts=settings.get("trusted_host", "").split(),
        verify=ssl.create_default_context(cafile=authority) if authority else True,
        cert=settings.get("client_cert"),
        proxy=settings.get("proxy"),
        timeout=float(settings.get("timeout") or settings.get("default_timeout") or 15),
        auth=MultiDomainBasicAuth(prompting=False, index_urls=indexes),
        follow_redirects=True,
        headers={"Accept-Encoding": "identity"},  # a packed file must come as it is
    )
    return cast("Fetcher", session)  # it has all methods, with wider types than the protocol


def file_of_a_hub(name: str, revision: str, file: str) -> None:
    """Fetch a file of a dataset at a revision, with the hub's own client."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    address = hf_hub_url(name, file, repo_type="dataset", revision=revision)
    try:
        # one short request tells whether there is a hub: a download tries for half a minute
        get_hf_file_metadata(address, timeout=5)
        hf_hub_download(name, file, repo_type="dataset", revision=revision, local_dir=".")
    except Exception as problem:
        sys.exit(_line(problem))


def _line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".partition("\n")[0]


if __name__ == "__main__":
    work = source_distribution if sys.argv[1] == "pip" else file_of_a_hub
    work(*sys.argv[2:])
