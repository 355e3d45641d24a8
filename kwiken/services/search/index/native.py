"""Reader of modules written in C: imports and inspects the modules known to be safe."""

from __future__ import annotations

import importlib
import inspect
import re
import types
import warnings
from collections.abc import Iterator

from kwiken.services.search.index.source import MAX_SIGNATURE, Definition, Module

# Written in C, documented, and without effects when imported. Those that take over the terminal (readline),
# open displays (_tkinter), warn of their end (audioop, nis) or exist for tests (_testcapi) are left out.
_KNOWN = """\
_asyncio _bisect _blake2 _bz2 _codecs _collections _contextvars _csv _ctypes _datetime _decimal _elementtree
_functools _hashlib _heapq _io _json _lzma _multiprocessing _opcode _operator _pickle _posixshmem _queue
_random _signal _socket _sqlite3 _sre _ssl _statistics _string _struct _symtable _thread _tokenize
_tracemalloc _typing _uuid _warnings _weakref _zoneinfo array atexit binascii builtins cmath errno
faulthandler fcntl gc grp itertools marshal math mmap posix pwd pyexpat resource select sys syslog termios
time unicodedata zlib
"""
_MARKERS = re.compile(r"\$\w+(, )?(/, |/)?")
_ROUTINES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.FunctionType,
    staticmethod,
    classmethod,
)
_FIELDS = (types.GetSetDescriptorType, types.MemberDescriptorType, property)


def modules() -> Iterator[Module]:
    """Every known C module of this interpreter, in a fixed order; those that it lacks are passed over."""
    seen: set[int] = set()
    for name in sorted(_KNOWN.split(), key=lambda item: (item != "builtins", item)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            if getattr(module, "__file__", "") and str(module.__file__).endswith(".py"):
                continue  # written in Python here; its source is read
            yield _describe(module, name, seen)


def _describe(module: types.ModuleType, name: str, seen: set[int]) -> Module:
    found = Module(name=name, package=False)
    found.definitions[""] = _definition(name, "", "module", module)
    for label, value in sorted(vars(module).items()):
        if label.startswith("_") or id(value) in seen:
            continue
        if isinstance(value, type):
            seen.add(id(value))
            _class(found, label, value)
        elif isinstance(value, types.BuiltinFunctionType) and inspect.getdoc(value):
            seen.add(id(value))
            found.definitions[label] = _definition(name, label, "function", value)
    return found


def _class(found: Module, label: str, value: type) -> None:
    if not (value.__doc__ and isinstance(value.__doc__, str)):
        return
    found.definitions[label] = _definition(found.name, label, "class", value)
    for name, member in sorted(vars(value).items()):
        if isinstance(member, _ROUTINES):
            kind = "method"
        elif isinstance(member, _FIELDS):
            kind = "property"
        else:
            continue
        text = _text(member)
        if text and text != _text(getattr(object, name, None)) and not _boilerplate(name, text):
            qualname = f"{label}.{name}"
            found.definitions[qualname] = _definition(found.name, qualname, kind, member)


def _boilerplate(name: str, text: str) -> bool:
    """`__add__: Return self+value.` says the same of every type."""
    return name.startswith("__") and len(text) < 60  # noqa: PLR2004


def _definition(module: str, qualname: str, kind: str, value: object) -> Definition:
    text = _text(value)
    signature = getattr(value, "__text_signature__", None) or ""
    if not signature and kind != "module":
        signature, text = _spoken_signature(qualname.rpartition(".")[2], text)
    signature = _MARKERS.sub("", signature) if signature else ""
    return Definition(module, qualname, kind, signature[:MAX_SIGNATURE], text, documented=bool(text))


def _spoken_signature(name: str, text: str) -> tuple[str, str]:
    """Signature and rest of a docstring whose first line is `name(...) -> result`."""
    first, _, rest = text.partition("\n")
    match = re.match(rf"(?:\w+\.)?{re.escape(name)}(\(.*\).*)\Z", first.strip()) if name else None
    if match is None:
        return "", text
    says, _, tail = match.group(1).partition(" -- ")
    return says, (tail + "\n" + rest).strip() or text


def _text(value: object) -> str:
    text = getattr(value, "__doc__", None)
    return inspect.cleandoc(text).strip() if isinstance(text, str) else ""
