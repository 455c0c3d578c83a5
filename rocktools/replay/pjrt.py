"""A PJRT plugin through its C interface, as far as compiling without a device needs it.

The plugin is the shared library that JAX itself uses. Its C interface takes programs in the format "hlo", which jaxlib
does not offer: an HLO module goes in as it is, and with `run_backend_only` no pass touches it.

Layout of the interface (xla/pjrt/c/pjrt_c_api.h): a structure of function pointers, of which new ones are added at the
end only, and one structure of arguments for each. A plugin refuses structures that are shorter than its own, and takes
longer ones; so ours have room behind their last field, and zero there means "not given". The prefix used here is the
same in versions 0.33 to 0.115.

Must not be used in the process of the user: a failed check of XLA ends the process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocktools.errors import ReplayError, UnsupportedVersion

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
# Number of a function behind the version of the interface, from 0.
_FUNCTIONS = {
    "PJRT_Error_Destroy": 0,
    "PJRT_Error_Message": 1,
    "PJRT_Plugin_Initialize": 3,
    "PJRT_Executable_Destroy": 40,
    "PJRT_Executable_Serialize": 49,
    "PJRT_TopologyDescription_Create": 82,
    "PJRT_TopologyDescription_Destroy": 83,
    "PJRT_Compile": 89,
}
_FUNCTIONS_OFFSET = 40  # size, extensions, {size, extensions, major, minor}
_VERSION_OFFSET = 32
_SPARE_BYTES = 128
_STRING_VALUE = 0


def _arguments(name: str, *fields: tuple[str, Any]) -> type[ctypes.Structure]:
    """A structure of arguments: its own size, extensions, fields, spare room."""
    head = [("struct_size", _SIZE), ("extensions", _POINTER)]
    tail = [("spare", ctypes.c_char * _SPARE_BYTES)]
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *fields, *tail]})


class _NamedValue(ctypes.Structure):
    """An option with a text; it stands in an array, so it has exactly the size of the interface's."""

    _fields_ = (
        ("struct_size", _SIZE),
        ("extensions", _POINTER),
        ("name", ctypes.c_char_p),
        ("name_size", _SIZE),
        ("kind", ctypes.c_int),
        ("text", ctypes.c_char_p),
        ("value_size", _SIZE),
    )


_Error = _arguments("_Error", ("error", _POINTER))
_Message = _arguments("_Message", ("error", _POINTER), ("text", _POINTER), ("size", _SIZE))
_Initialize = _arguments("_Initialize")
_Topology = _arguments(
    "_Topology",
    *(("name", ctypes.c_char_p), ("name_size", _SIZE), ("options", _POINTER), ("options_count", _SIZE)),
    ("topology", _POINTER),
)
_Program = _arguments(
    "_Program",
    *(("code", _POINTER), ("code_size", _SIZE), ("format", ctypes.c_char_p), ("format_size", _SIZE)),
)
_Compile = _arguments(
    "_Compile",
    *(("topology", _POINTER), ("program", _POINTER), ("options", ctypes.c_char_p), ("options_size", _SIZE)),
    *(("client", _POINTER), ("executable", _POINTER)),
)
_Serialize = _arguments(
    "_Serialize",
    *(("executable", _POINTER), ("bytes", _POINTER), ("size", _SIZE), ("serialized", _POINTER), ("deleter", _POINTER)),
)
_Handle = _arguments("_Handle", ("handle", _POINTER))


class PjrtRefusal(ReplayError):
    """The plugin answered a call with an error."""


class PjrtPlugin:
    """A loaded plugin."""

    def __init__(self, path: Path) -> None:
        """Load and initialize it.

        Raises:
            ReplayError: it cannot be loaded: a library it needs is missing or is another version.
            UnsupportedVersion: its interface has not the functions that are needed.
            PjrtRefusal: it did not want to be initialized.
        """
        try:
            library = ctypes.CDLL(str(path))
            get_api = library.GetPjrtApi
        except (OSError, AttributeError) as error:
            raise ReplayError("pjrt-load", f"the plugin cannot be loaded: {error}", where=str(path)) from error
        get_api.restype = _POINTER
        self._api: int = get_api()
        self.path = path
        size = ctypes.cast(self._api, ctypes.POINTER(_SIZE))[0]
        major, minor = (ctypes.c_int * 2).from_address(self._api + 24 + 16 - 8)
        self.version = f"{major}.{minor}"
        if major != 0 or size < _FUNCTIONS_OFFSET + 8 * (max(_FUNCTIONS.values()) + 1):
            raise UnsupportedVersion(
                "pjrt-version", f"the plugin has the PJRT interface {self.version}", where=str(path)
            )
        self._call("PJRT_Plugin_Initialize", _Initialize())

    def create_topology(self, options: Mapping[str, str]) -> int:
        """A topology without devices, to compile for.

        Args:
            options: `topology` (`1x1x8`: slices, hosts, devices) and `target_config` (a text proto).

        Raises:
            PjrtRefusal: the plugin knows none of that kind.
        """
        names = {name: (name.encode(), value.encode()) for name, value in options.items()}
        values = (_NamedValue * len(names))()
        for value, (name, text) in zip(values, names.values(), strict=True):
            value.struct_size = ctypes.sizeof(_NamedValue)
            value.name, value.name_size, value.kind = name, len(name), _STRING_VALUE
            value.text, value.value_size = text, len(text)
        arguments = _Topology(name=b"", options=ctypes.cast(values, _POINTER), options_count=len(names))
        topology: int = self._call("PJRT_TopologyDescription_Create", arguments).topology
        return topology

    def compile_module(self, topology: int, module: bytes, options: bytes) -> bytes:
        """The serialized executable of an HLO module.

        Args:
            topology: of `create_topology`.
            module: serialized HloModuleProto.
            options: serialized CompileOptionsProto.

        Raises:
            PjrtRefusal: XLA refuses the module.
        """
        code = ctypes.create_string_buffer(module, len(module))
        program = _Program(code=ctypes.cast(code, _POINTER), code_size=len(module), format=b"hlo", format_size=3)
        program.struct_size = ctypes.sizeof(program)
        pointer = ctypes.cast(ctypes.byref(program), _POINTER)
        arguments = _Compile(topology=topology, program=pointer, options=options, options_size=len(options))
        executable = self._call("PJRT_Compile", arguments).executable
        try:
            written = self._call("PJRT_Executable_Serialize", _Serialize(executable=executable))
            content = ctypes.string_at(written.bytes, written.size)
            ctypes.CFUNCTYPE(None, _POINTER)(written.deleter)(written.serialized)
        finally:
            self._call("PJRT_Executable_Destroy", _Handle(handle=executable))
        return content

    def _function(self, name: str, result: Any) -> Any:
        address = ctypes.cast(self._api + _FUNCTIONS_OFFSET + 8 * _FUNCTIONS[name], ctypes.POINTER(_POINTER))[0]
        return ctypes.CFUNCTYPE(result, _POINTER)(address)

    def _call(self, name: str, arguments: Any) -> Any:
        """Call a function; its arguments, in which it has put the result."""
        arguments.struct_size = ctypes.sizeof(arguments)
        error = self._function(name, _POINTER)(ctypes.cast(ctypes.byref(arguments), _POINTER))
        if error:
            raise PjrtRefusal("pjrt-refused", f"{name}: {self._message_of(error)}", where=str(self.path))
        return arguments

    def _message_of(self, error: int) -> str:
        """The text of an error, which is freed."""
        message, handle = _Message(error=error), _Error(error=error)
        for name, arguments in (("PJRT_Error_Message", message), ("PJRT_Error_Destroy", handle)):
            arguments.struct_size = ctypes.sizeof(arguments)
            self._function(name, None)(ctypes.cast(ctypes.byref(arguments), _POINTER))
            if arguments is message:
                text = ctypes.string_at(message.text, message.size).decode("utf-8", "replace")
        return text
