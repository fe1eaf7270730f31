"""The registry of extensions: names, and the code that implements them.

A registration is a string ``"module:Class"`` that is imported on first use, or the class itself.
Other packages add theirs at run time with `register`, or by an entry point in the group
``omnizarr.<kind>`` (``omnizarr.codec``, ``omnizarr.data_type``, ``omnizarr.chunk_grid``,
``omnizarr.chunk_key_encoding``, ``omnizarr.storage_transformer``, ``omnizarr.store``,
``omnizarr.store_adapter``, ``omnizarr.metadata_encoding``, ``omnizarr.integration``), which are
consulted only for unknown names.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from opcode import opmap
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

from omnizarr import errors
from omnizarr.errors import InvalidArgument, StoreError, WrongType, did_you_mean, known_names

Kind: TypeAlias = Literal[
    "codec",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "storage_transformer",
    "store",
    "store_adapter",
    "metadata_encoding",
    "integration",
]

# A name as version 3 requires it, or a URI, as the draft did; an asterisk ends a family of names.
_NAME = re.compile(r"[a-z][a-z0-9_.-]*\*?|urn:.+|[a-z][a-z0-9+.-]*://.+")

KINDS: tuple[Kind, ...] = get_args(Kind)
# The kinds that Zarr metadata name, and where their public names are described.
EXTENSION_POINTS = KINDS[:5]
REGISTER = "https://github.com/zarr-developers/zarr-extensions"
# The modules that register the names of this package; imported when a name is looked up.
_BUILTIN: dict[Kind, str] = {
    "codec": "omnizarr.codecs",
    "data_type": "omnizarr.data_types",
    "chunk_grid": "omnizarr.chunk_grids",
    "chunk_key_encoding": "omnizarr.chunk_key_encodings",
    "storage_transformer": "omnizarr.storage_transformers",
    "store": "omnizarr.stores.resolve",
    "store_adapter": "omnizarr.stores.resolve",
}
_complete: set[Kind] = set()
_table: dict[tuple[Kind, str], Any] = {}
_sources: dict[Kind, Callable[[str], Any | None] | None] = {}
_entry_points_read: set[Kind] = set()
_generation = 0


def register(kind: Kind, name: str, target: Any, *aliases: str, replace: bool = False) -> None:
    """Register `target`, an object or ``"module:attribute"``, as `name` and `aliases`.

    Something else that has one of the names, such as the codec ``zstd``, stays unless `replace`.
    What a program defined before under the same name is replaced when it runs again.

    Args:
        kind: The kind of extension, such as ``"codec"``, ``"data_type"`` or ``"store"``.
        name: The name in metadata, or the scheme of a URL.
        target: An object, or ``"module:attribute"``, which is imported when it is first used.
        *aliases: Further names.
        replace: True to replace something else that has one of the names.

    Raises:
        InvalidArgument: If there is no such kind, a name is not allowed, or something else has it.

    Examples:
        >>> oz.register("store", "ramdisk", "omnizarr.stores.memory:MemoryStore")
    """
    if kind not in KINDS:
        raise InvalidArgument(f"unknown kind {kind!r} of extension; {known_names(kind, KINDS)}")
    _load_builtin(kind)
    for each in (name, *aliases):
        if not _NAME.fullmatch(each):
            raise InvalidArgument(
                f"{each!r} cannot be registered as a {kind.replace('_', ' ')}: a name has a-z, 0-9,"
                " '-', '_' and '.', and starts with a letter"
            )
        known = _table.get((kind, each))
        if not replace and known is not None and _origin(known) != _origin(target):
            raise InvalidArgument(
                f"{kind.replace('_', ' ')} {each!r} is known already, as {_origin(known)};"
                " replace=True replaces it"
            )
    if not isinstance(target, str):
        _check(kind, name, target)
    global _generation
    _generation += 1
    for each in (name, *aliases):
        _table[kind, each] = target


def _load_builtin(kind: Kind) -> None:
    """Import the module that registers this package's own names of a kind."""
    if kind in _complete:
        return
    if kind in _BUILTIN:
        module = load(_BUILTIN[kind])  # waits for another thread's import
        if getattr(module.__spec__, "_initializing", False):
            return  # its own registrations
    _complete.add(kind)


def _check(kind: Kind, name: str, target: Any) -> None:
    if kind == "codec":
        load("omnizarr.codecs.codec:check_target")(name, target)
    elif not callable(target):
        raise WrongType(f"{target!r} cannot be the {kind.replace('_', ' ')} {name!r}")


def _origin(target: Any) -> object:
    """Return where a target was defined; one without such a place is its own origin."""
    if isinstance(target, str):
        return target
    place = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    return target if None in place else f"{place[0]}:{place[1]}"


def generation() -> int:
    """Return a number that changes with every registration, for caches of bound objects."""
    return _generation


def find(kind: Kind, name: str) -> Any | None:
    """Return the target registered as `name`, imported if need be, or None."""
    _load_builtin(kind)
    target = _table.get((kind, name))
    if target is None and kind not in _entry_points_read:
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow, rarely needed

        _check_descriptors(f"omnizarr.{kind}")
        for point in entry_points(group=f"omnizarr.{kind}"):
            _table.setdefault((kind, point.name), f"{point.module}:{point.attr}")
        _entry_points_read.add(kind)
        target = _table.get((kind, name))
    if target is None:
        source = _sources.get(kind)
        return None if source is None else source(name)
    if isinstance(target, str):
        own, target = target.startswith("omnizarr."), load(target)
        if not own:
            _check(kind, name, target)
        _table[kind, name] = target
    return target


def set_source(kind: Kind, source: Callable[[str], Any | None] | None) -> None:
    """Ask `source`, if any, for names that nobody has registered: it returns a target or None."""
    global _generation
    _sources[kind] = source
    _generation += 1


def load(target: str) -> Any:
    """Return the object named by ``"module:attribute"``, or ``"module"``, imported on first use."""
    module, _, attribute = target.partition(":")
    try:
        found = importlib.import_module(module)
    except (ImportError, OSError):
        _check_descriptors(module)
        raise
    return attrgetter(attribute)(found) if attribute else found


def load_optional(target: str, needed: str) -> Any:
    """Return what `load` does, from a package that may not be installed.

    `needed` is the message where it is not: what needs the package, and how to install it.
    """
    try:
        return load(target)
    except ImportError as e:
        raise errors.MissingModule(f"{needed} ({e})") from e


_ELSEWHERE = "see omnizarr.storage, omnizarr.codecs, and omnizarr.zarr for zarr-python's names"


def attributes(
    module: str, targets: Mapping[str, str], public: Iterable[str] = ()
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose names are imported on first use.

    `targets` are below the package. A name that needs a package which is not installed is an
    `AttributeError`, so that ``hasattr``, ``help`` and completion work; ``from … import …`` keeps
    the message, which says what to install. ``__all__`` is `public` without such names, if given.
    """

    def get(name: str) -> Any:
        if name == "__all__" and public:
            return available(public)
        if name not in targets:
            raise AttributeError(f"module {module!r} has no attribute {name!r}; {_ELSEWHERE}")
        try:
            value = load(f"omnizarr.{targets[name]}")
        except errors.MissingPackage as e:
            caller = sys._getframe(1)  # a ``from … import …`` hides an `AttributeError`'s message
            if caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]:
                raise
            raise errors.MissingAttribute(str(e)) from e
        setattr(sys.modules[module], name, value)
        return value

    return get


# The optional packages that the names of modules need.
_NEEDS = {"LMDBStore": "lmdb", "RedisStore": "redis", "from_dask": "dask", "xarray": "xarray"}
_NEEDS |= {"serve": "uvicorn", "serving": "uvicorn", "zarr": "zarr"}


def available(names: Iterable[str]) -> list[str]:
    """Return the names of a module whose packages are installed, sorted."""
    return sorted(n for n in names if n not in _NEEDS or _installed(_NEEDS[n]))


def _installed(package: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - slow to import, rarely needed

    try:
        found = find_spec(package)
    except ValueError:  # a module without a specification, such as one created by a program
        return True
    return found is not None and found.origin is not None  # otherwise a mere directory of that name


def _check_descriptors(what: str) -> None:
    """Raise if no file can be opened, since installed modules would then seem to be missing."""
    if reason := errors.descriptor_shortage():
        raise StoreError(f"cannot load {what!r}: {reason}")


def lookup(kind: Kind, name: str, where: str = "") -> Any:
    """Return the target registered as `name`; an unknown name is an error with suggestions."""
    target = find(kind, name)
    if target is not None:
        return target
    owner, dot, _ = name.partition(".")
    origin = ""
    if kind in EXTENSION_POINTS and dot:
        origin = (
            f"names that start with {owner}. are private to the writer {owner}; install a package"
            " that registers it; "
        )
    elif kind in EXTENSION_POINTS:
        origin = (
            "it may be private to the program that wrote it, or newer than this version of"
            f" omnizarr (see {REGISTER}); "
        )
    help_ = origin + similar_or_shared(name, names(kind))
    if ":" in name:  # a URI, to which no known name is similar
        help_ = f"register what implements it under that URI: omnizarr.register({kind!r}, …)"
    words, place = kind.replace("_", " "), f" at {where}" if where else ""
    raise errors.UnknownExtension(f"unknown {words} {name!r}{place}; {help_}", kind=kind, name=name)


def similar_or_shared(name: str, every: Iterable[str]) -> str:
    """Return the end of a message: a similar name, or all names without a package's prefix."""
    listed = list(every)
    shared = [n for n in listed if not re.search(r"[.:]|^imagecodecs_", n)]
    return known_names(name, listed if did_you_mean(name, listed) else shared)


def names(kind: Kind) -> list[str]:
    """Return all names registered for `kind`, sorted."""
    _load_builtin(kind)
    return sorted(n for k, n in _table if k == kind)
