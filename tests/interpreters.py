"""Run a command under another Python, in a clean clone of the commit checked out.

    python3 tests/interpreters.py 3.14 make test
    python3 tests/interpreters.py 3.13 make test ARGS="-k relu"

If PATH, pyenv or uv provides the interpreter, it is used; make gets it as PYTHON.
Otherwise, or with --isolated, it comes from the Debian suite that contains it:
debootstrap installs the suite into a folder, once, and the command runs inside, with
nothing but that interpreter, make, git and a C compiler. This needs Linux, root, the
package debootstrap, and an apt that knows a Debian mirror. The pip settings and the
certificates of this machine apply inside. Elsewhere, install an interpreter first:

    uv python install 3.14  # or: pyenv install 3.14

The folder contains the clone, whose .venv lasts until the next call, and the suites
that debootstrap installed. Remove the folder to start anew, or to get a newer
interpreter from sid.
"""

import argparse
import ast
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The Debian suite of each Python. sid changes: a check reports a missing version.
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid"}
PACKAGES = "python3,python3-dev,python3-venv,make,git,gcc,g++,libc6-dev,ca-certificates"
# Environment variables that the command sees inside.
PASSED_VARIABLES = re.compile(
    r"(PIP|PLUGRAD|OMP|SSL)_|(CI|NO_COLOR|TERM)$|.*_(PROXY|CERT|CA_BUNDLE)$", re.I
)
# Files of the machine that the command needs: host names and trusted certificates.
BOUND_PATHS = ["/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs"]
FILESYSTEMS = ["proc", "sys", "dev"]
CLONE_IN_SUITE = "/plugrad"  # where the suite sees the clone
DEBIAN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main(arguments=None):
    """Parse the arguments, run the command, and return its exit status."""
    parser = argparse.ArgumentParser(
        "interpreters.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--isolated",
        action="store_true",
        help="run inside a Debian suite, even if this machine has the interpreter",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".cache" / "interpreters",
        help="where clones and suites are put; by default %(default)s",
    )
    parser.add_argument("version", help="Python version, such as 3.14")
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, help="by default: make test"
    )
    chosen = parser.parse_args(arguments)
    if not re.fullmatch(r"3\.\d+", chosen.version):
        parser.error(f"the version must be like 3.14, got {chosen.version!r}")
    folder = chosen.folder.resolve() / chosen.version
    command = chosen.command or ["make", "test"]
    try:
        python = None if chosen.isolated else find(chosen.version)
        suite = None if python else bootstrapped(chosen.version, folder / "debian")
        checkout = cloned(folder / "checkout")
    except Missing as error:
        return f"interpreters.py: {error}"
    if suite:
        return run_inside(suite, checkout, chosen.version, command)
    print(f"Python {chosen.version}: {python}, in {checkout}", flush=True)
    return run_here(python, checkout, command)


class Missing(Exception):
    """There is no interpreter, and no way to install one."""


def find(version):
    """Return the path of an interpreter of this machine that can make environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}")]
    candidates += [f / "bin" / "python" for f in pyenv.glob(f"{version}.*")]
    if uv := shutil.which("uv"):
        command = [uv, "python", "find", "--no-python-downloads", version]
        found = subprocess.run(command, capture_output=True, text=True)
        candidates.append(found.stdout.strip())
    code = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
    for path in filter(None, candidates):
        command = [path, "-c", code]
        output = subprocess.run(command, capture_output=True, text=True).stdout
        if output.strip() == version:
            return Path(path)
    return None


def cloned(checkout):
    """Return a clone of this repository at the commit that is checked out."""

    def git(*arguments):
        command = ["git", *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    if git("-C", str(ROOT), "status", "--porcelain"):
        print("interpreters.py: changes that are not committed are left out")
    if not checkout.exists():
        git("clone", "--quiet", str(ROOT), str(checkout))
    git("-C", str(checkout), "fetch", "--quiet", str(ROOT), "HEAD")
    git("-C", str(checkout), "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    return checkout


def run_here(python, checkout, command):
    """Run a command in a clone, where `python3` and PYTHON refer to an interpreter."""
    foreign = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")  # point outside the clone
    env = {name: value for name, value in os.environ.items() if name not in foreign}
    env["PATH"] = f"{python.parent}{os.pathsep}{env['PATH']}"
    env["PYTHON"] = str(python)
    return subprocess.run(command, cwd=checkout, env=env).returncode


# --- Debian ----------------------------------------------------------------------


def bootstrapped(version, suite):
    """Return the folder where the Debian suite of a Python version is installed."""
    elsewhere = f"`uv python install {version}` or `pyenv install {version}` gets it"
    missing = f"there is no Python {version} here; {elsewhere}"
    name = SUITES.get(version)
    if name is None:
        raise Missing(f"{missing}; no Debian suite has it, only {', '.join(SUITES)}")
    if platform.system() != "Linux" or not shutil.which("apt-get"):
        raise Missing(missing)
    if os.geteuid() != 0:
        raise Missing(f"{missing}; as root, this script gets it from Debian's {name}")
    done = suite.with_name("bootstrapped")
    if not done.exists():
        if not shutil.which("debootstrap"):
            raise Missing(f"{missing}; or run `apt-get install debootstrap` first")
        mirror = debian_mirror()
        shutil.rmtree(suite, ignore_errors=True)  # left over from an interrupted run
        suite.mkdir(parents=True)
        print(f"installing Debian's {name} into {suite}", flush=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}"]
        log = suite.with_name("debootstrap.log")
        with log.open("w") as output:
            command += [name, str(suite), mirror]
            failed = subprocess.run(command, stdout=output, stderr=output).returncode
        if failed:
            raise Missing(f"debootstrap could not install {name}: see {log}")
        done.touch()
    if not (suite / "usr" / "bin" / f"python{version}").exists():
        has = sorted(f.name for f in suite.glob("usr/bin/python3.*[0-9]"))
        raise Missing(f"Debian's {name} has {', '.join(has)}, and no python{version}")
    return suite


def debian_mirror():
    """Return the address of the Debian archive that apt uses."""
    command = ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)"]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    addresses = [line.removeprefix("Debian ") for line in lines]
    found = [a for a, line in zip(addresses, lines, strict=True) if a != line]
    if not found:
        raise Missing("apt knows no Debian mirror; run `apt-get update` first?")
    return found[0]


def pip_settings(listed):
    """Return the settings from `pip config list` as environment variables."""
    settings = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.partition(".")
        if section in ("global", "install"):
            variable = "PIP_" + option.upper().replace("-", "_")
            settings[variable] = " ".join(ast.literal_eval(value).split())
    return settings


def paths_in(settings):
    """Return the files and folders of this machine that settings name.

    The wheels of a local index, such as `file:///index/simple`, may be next to it.
    """
    found = set()
    for word in " ".join(settings.values()).split():
        path = Path(word.removeprefix("file://"))
        if path.is_absolute() and path.exists():
            is_index = word.startswith("file://") and path.parent != Path("/")
            found.add(str(path.parent if is_index else path))
    return sorted(found)


def run_inside(suite, checkout, version, command):
    """Run a command in a clone, inside a suite; mounts last as long as the command."""
    pip = [sys.executable, "-m", "pip"]
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True)
    cache = subprocess.run([*pip, "cache", "dir"], capture_output=True, text=True)
    settings = pip_settings(listed.stdout)
    settings |= {n: v for n, v in os.environ.items() if PASSED_VARIABLES.match(n)}
    binds = {path: path for path in [*BOUND_PATHS, *paths_in(settings)]}
    binds |= {str(checkout): CLONE_IN_SUITE, cache.stdout.strip(): "/root/.cache/pip"}
    lines = ["set -eu"]
    lines += [f"mount --rbind /{f} {shlex.quote(f'{suite}/{f}')}" for f in FILESYSTEMS]
    for source, target in binds.items():
        lines += _bind(source, suite / target.lstrip("/"))
    trust = f"git config --global --replace-all safe.directory {CLONE_IN_SUITE}"
    inside = f'cd {CLONE_IN_SUITE} && {trust} && exec "$@"'
    entered = ["chroot", str(suite), "sh", "-c", inside, "sh", *command]
    lines.append(f"exec {shlex.join(entered)}")
    settings |= {"HOME": "/root", "PATH": DEBIAN_PATH, "PYTHON": f"python{version}"}
    print(
        f"Python {version}: in {suite}, with {checkout} as {CLONE_IN_SUITE}", flush=True
    )
    unshared = ["unshare", "--mount", "sh", "-c", "\n".join(lines)]
    return subprocess.run(unshared, env=settings).returncode


def _bind(source, target):
    """Return the commands that mount a file or folder of the machine inside a suite."""
    source = os.path.realpath(source)
    if not os.path.exists(source):
        return []
    if target.is_symlink():
        target.unlink()
    if os.path.isdir(source):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    return [f"mount --bind {shlex.quote(source)} {shlex.quote(str(target))}"]


if __name__ == "__main__":
    sys.exit(main())
