"""Says what this interpreter is and has, as one line of JSON.

Imports neither torch nor anything else that is slow, and parses on any Python 3, so that one that is too old can
say so itself.
"""

import json
import os
import re
import site
import sys
import sysconfig


def version_of(name):
    """Version from the package's metadata, or None."""
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def folder_of(name):
    """Folder of an importable package, found without importing it, or None."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return os.path.dirname(spec.origin) if spec and spec.origin else None


def torch_facts(folder):
    """What torch/version.py says: unlike the metadata, it names the build (`+cpu`, `+cu130`)."""
    facts = {}
    if folder:
        try:
            with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
                facts = dict(re.findall(r"^(\w+)\s*(?::[^=\n]*)?=\s*['\"]([^'\"]+)['\"]", file.read(), re.MULTILINE))
        except OSError:
            pass
    return {
        "torch": (facts.get("__version__") or version_of("torch")) if folder else None,
        "cuda": facts.get("cuda"),
        "hip": facts.get("hip"),
    }


def packaged(pattern):
    """First file of an installed package, such as NVIDIA's wheels, or None."""
    import glob

    found = [path for entry in sys.path for path in sorted(glob.glob(os.path.join(glob.escape(entry), pattern)))]
    return found[0] if found else None


def readable(folders):
    """Resolved, existing folders that must be readable for this interpreter to run; none inside another."""
    found = []
    for folder in sorted({os.path.realpath(f) for f in folders if f}, key=lambda f: (f.count(os.sep), f)):
        inside = any(folder.startswith(f + os.sep) for f in found)
        if os.path.isdir(folder) and folder != os.sep and not inside:
            found.append(folder)
    return found


def facts():
    """Everything."""
    answer = {"version": "{}.{}.{}".format(*sys.version_info[:3])}
    if sys.version_info < (3, 10):
        return answer
    paths = sysconfig.get_paths()
    torch, numpy = folder_of("torch"), folder_of("numpy")
    user_site = site.getusersitepackages()
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, torch, numpy]
    folders += [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [entry for entry in sys.path if os.path.isdir(entry)]
    folders += [sysconfig.get_config_var("LIBDIR"), os.path.dirname(os.path.realpath(sys.executable))]
    answer.update(
        executable=sys.executable,
        prefixes=readable(folders),
        scripts=paths["scripts"],
        numpy=version_of("numpy") if numpy else None,
        triton=version_of("triton") if folder_of("triton") else None,
        ninja=version_of("ninja"),
        cute=version_of("nvidia-cutlass-dsl"),
        nvcc=packaged("nvidia/*/bin/nvcc"),
        nvrtc=packaged("nvidia/*/lib/libnvrtc.so*") or packaged("torch/lib/libnvrtc*.so*"),
        uv=version_of("uv"),
        pip=folder_of("pip") is not None,
        venv=folder_of("venv") is not None and folder_of("ensurepip") is not None,
        headers=os.path.isfile(os.path.join(paths["include"], "Python.h")),
        externally_managed=sys.prefix == sys.base_prefix
        and os.path.isfile(os.path.join(paths["stdlib"], "EXTERNALLY-MANAGED")),
        user_site=user_site if os.path.isdir(os.path.join(user_site, "torch")) else None,
        **torch_facts(torch),
    )
    return answer


print("kforge-probe " + json.dumps(facts()))
