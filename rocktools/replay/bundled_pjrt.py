"""A PJRT plugin through its C interface: compile an HLO module as it is, put arrays on devices, run, read results.

One file, standard library, numpy and ml_dtypes: it is copied into each bundle and must know nothing of rocktools. JAX
takes StableHLO only, from which XLA makes another program than the one that ran; the C interface takes the format
"hlo", and with `run_backend_only` no pass touches it.

Layout of the interface (xla/pjrt/c/pjrt_c_api.h): a structure of function pointers, of which new ones are added at
the end only, and one structure of arguments for each. A plugin refuses structures that are shorter than its own, and
takes longer ones; so ours have room behind their last field, and zero there means "not given".
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["PjrtClient", "PjrtError", "compile_options"]

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
# Number of a function behind the version of the interface, from 0.
_FUNCTIONS = {
    "PJRT_Error_Destroy": 0, "PJRT_Error_Message": 1, "PJRT_Plugin_Initialize": 3, "PJRT_Event_Destroy": 5,
    "PJRT_Event_Await": 8, "PJRT_Client_Create": 10, "PJRT_Client_PlatformName": 12,
    "PJRT_Client_AddressableDevices": 16, "PJRT_Client_Compile": 20, "PJRT_Client_BufferFromHostBuffer": 22,
    "PJRT_Executable_NumOutputs": 44, "PJRT_LoadedExecutable_GetExecutable": 51, "PJRT_LoadedExecutable_Execute": 55,
    "PJRT_Buffer_Destroy": 58, "PJRT_Buffer_ElementType": 59, "PJRT_Buffer_Dimensions": 60,
    "PJRT_Buffer_ToHostBuffer": 70,
}  # fmt: skip
_FUNCTIONS_OFFSET = 40  # size, extensions, {size, extensions, major, minor}
_SPARE_BYTES = 128
# PJRT_Buffer_Type, by number.
_TYPES = (
    *("invalid", "pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bf16", "c64"),
    *("c128", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s4", "u4", "token", "s2", "u2"),
    *("f8e4m3", "f8e3m4", "f8e8m0fnu", "f4e2m1fn", "s1", "u1", "f6e2m3fn", "f6e3m2fn"),
)


class PjrtError(RuntimeError):
    """The plugin cannot be used, or answered a call with an error."""


def _arguments(name: str, *fields: tuple[str, Any]) -> type[ctypes.Structure]:
    """A structure of arguments: its own size, extensions, fields, spare room."""
    head = [("struct_size", _SIZE), ("extensions", _POINTER)]
    tail = [("spare", ctypes.c_char * _SPARE_BYTES)]
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *fields, *tail]})


class _Value(ctypes.Union):
    _fields_ = (("text", ctypes.c_char_p), ("integer", ctypes.c_int64), ("boolean", ctypes.c_bool))


class _NamedValue(ctypes.Structure):
    """It stands in an array, so it has exactly the size of the interface's."""

    _fields_ = (
        ("struct_size", _SIZE), ("extensions", _POINTER), ("name", ctypes.c_char_p), ("name_size", _SIZE),
        ("kind", ctypes.c_int), ("value", _Value), ("value_size", _SIZE),
    )  # fmt: skip


_Error = _arguments("_Error", ("error", _POINTER))
_Message = _arguments("_Message", ("error", _POINTER), ("text", _POINTER), ("size", _SIZE))
_Nothing = _arguments("_Nothing")
_Event = _arguments("_Event", ("event", _POINTER))
_Create = _arguments(
    "_Create",
    *(("options", _POINTER), ("options_count", _SIZE), ("get", _POINTER), ("get_argument", _POINTER)),
    *(("put", _POINTER), ("put_argument", _POINTER), ("client", _POINTER), ("try_get", _POINTER)),
    ("try_get_argument", _POINTER),
)
_Name = _arguments("_Name", ("client", _POINTER), ("text", _POINTER), ("size", _SIZE))
_Devices = _arguments("_Devices", ("client", _POINTER), ("devices", ctypes.POINTER(_POINTER)), ("count", _SIZE))
_Program = _arguments(
    "_Program",
    *(("code", _POINTER), ("code_size", _SIZE), ("format", ctypes.c_char_p), ("format_size", _SIZE)),
)
_Compile = _arguments(
    "_Compile",
    *(("client", _POINTER), ("program", _POINTER), ("options", ctypes.c_char_p), ("options_size", _SIZE)),
    ("executable", _POINTER),
)
_Executable = _arguments("_Executable", ("loaded", _POINTER), ("executable", _POINTER))
_Count = _arguments("_Count", ("executable", _POINTER), ("count", _SIZE))


class _TiledLayout(ctypes.Structure):
    """Embedded in a union, so that it has no room to spare."""

    _fields_ = (
        ("struct_size", _SIZE), ("extensions", _POINTER), ("order", _POINTER), ("order_size", _SIZE),
        ("tiles", _POINTER), ("tile_sizes", _POINTER), ("tiles_count", _SIZE),
    )  # fmt: skip


_Layout = _arguments("_Layout", ("tiled", _TiledLayout), ("kind", ctypes.c_int))
_FromHost = _arguments(
    "_FromHost",
    *(("client", _POINTER), ("data", _POINTER), ("type", ctypes.c_int), ("dimensions", _POINTER), ("rank", _SIZE)),
    *(("strides", _POINTER), ("strides_count", _SIZE), ("semantics", ctypes.c_int), ("device", _POINTER)),
    *(("memory", _POINTER), ("layout", _POINTER), ("done", _POINTER), ("buffer", _POINTER)),
)
_Options = _arguments(
    "_Options",
    *(("send", _POINTER), ("receive", _POINTER), ("sends", _SIZE), ("receives", _SIZE), ("launch", ctypes.c_int)),
    *(("kept", _POINTER), ("kept_count", _SIZE), ("context", _POINTER)),
)
_Execute = _arguments(
    "_Execute",
    *(("loaded", _POINTER), ("options", _POINTER), ("arguments", _POINTER), ("devices_count", _SIZE)),
    *(("arguments_count", _SIZE), ("outputs", _POINTER), ("events", _POINTER), ("device", _POINTER)),
)
_Buffer = _arguments("_Buffer", ("buffer", _POINTER))
_Type = _arguments("_Type", ("buffer", _POINTER), ("type", ctypes.c_int))
_Dimensions = _arguments(
    "_Dimensions", ("buffer", _POINTER), ("dimensions", ctypes.POINTER(ctypes.c_int64)), ("rank", _SIZE)
)
_ToHost = _arguments(
    "_ToHost",
    *(("buffer", _POINTER), ("layout", _POINTER), ("target", _POINTER), ("size", _SIZE), ("event", _POINTER)),
)


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def compile_options(argument_shapes: Sequence[bytes], result_shape: bytes, devices: Sequence[int] = (0,)) -> bytes:
    """CompileOptionsProto: no pass runs, and parameters and results lie in memory as they do in the job.

    Without the layouts XLA takes every parameter for row-major, and what the kernel reads is silently something else.

    Args:
        argument_shapes: serialised ShapeProto of each parameter.
        result_shape: of the result.
        devices: numbers of those that run the program, one for each of its partitions.
    """
    assignment = _integer(1, 1) + _integer(2, len(devices))
    for device in devices:  # DeviceAssignmentProto.ComputationDevice
        assignment += _bytes(3, _bytes(1, _varint(device)))
    build = [
        *(_integer(1, -1), _bytes(2, result_shape), _integer(4, 1), _integer(5, len(devices))),
        *([_integer(6, 1)] if len(devices) > 1 else []),  # use_spmd_partitioning: one program for all partitions
        *(_bytes(9, assignment), _integer(11, 1)),  # device_assignment, run_backend_only
    ]
    return b"".join(_bytes(1, shape) for shape in argument_shapes) + _bytes(3, b"".join(build))


class PjrtClient:
    """A loaded plugin with its devices.

    Args:
        path: the plugin's shared library.
        options: of the client, by name; those that a plugin does not know, it refuses.

    Raises:
        PjrtError: the plugin cannot be loaded, or has no device.
    """

    def __init__(self, path: str, options: Mapping[str, str | int | bool] | None = None) -> None:
        try:
            self._library = ctypes.CDLL(path)
            get_api = self._library.GetPjrtApi
        except (OSError, AttributeError) as error:
            raise PjrtError(f"the plugin {path} cannot be loaded: {error}") from error
        get_api.restype = _POINTER
        self._api: int = get_api()
        size = ctypes.cast(self._api, ctypes.POINTER(_SIZE))[0]
        version = ctypes.cast(self._api, ctypes.POINTER(ctypes.c_int32))
        self.version = f"{version[8]}.{version[9]}"
        if version[8] != 0 or size < _FUNCTIONS_OFFSET + 8 * (max(_FUNCTIONS.values()) + 1):
            raise PjrtError(f"the plugin {path} has the PJRT interface {self.version}, which is not known here")
        self._call("PJRT_Plugin_Initialize", _Nothing())
        values = _named_values(options or {})
        created = _Create(options=ctypes.cast(values, _POINTER), options_count=len(options or {}))
        self._client: int = self._call("PJRT_Client_Create", created).client
        found = self._call("PJRT_Client_AddressableDevices", _Devices(client=self._client))
        self._devices = [found.devices[place] for place in range(found.count)]
        name = self._call("PJRT_Client_PlatformName", _Name(client=self._client))
        self.platform = ctypes.string_at(name.text, name.size).decode("utf-8", "replace")

    @property
    def devices_count(self) -> int:
        return len(self._devices)

    def compile(self, module: bytes, options: bytes) -> int:
        """A handle of the executable.

        Args:
            module: serialised HloModuleProto.
            options: of `compile_options`.
        """
        code = ctypes.create_string_buffer(module, len(module))
        program = _Program(code=ctypes.cast(code, _POINTER), code_size=len(module), format=b"hlo", format_size=3)
        program.struct_size = ctypes.sizeof(program)
        arguments = _Compile(client=self._client, program=_address(program), options=options, options_size=len(options))
        loaded: int = self._call("PJRT_Client_Compile", arguments).executable
        return loaded

    def put(self, values: np.ndarray[Any, Any], dtype: str, order: Sequence[int], device: int = 0) -> int:
        """A buffer on a device with the values of a row-major array.

        Args:
            dtype: XLA's name of the element type.
            order: of the dimensions in the memory of the device, the fastest-varying first.
        """
        values = np.ascontiguousarray(values)
        dimensions = (ctypes.c_int64 * max(1, values.ndim))(*values.shape)
        layout, kept = _layout(order)
        is_default = list(order) == list(reversed(range(values.ndim)))
        arguments = _FromHost(
            client=self._client,
            data=values.ctypes.data,
            type=_TYPES.index(dtype),
            dimensions=ctypes.cast(dimensions, _POINTER),
            rank=values.ndim,
            device=self._devices[device],
            layout=None if is_default else _address(layout),
        )
        self._call("PJRT_Client_BufferFromHostBuffer", arguments)
        self._wait(arguments.done)
        del kept
        buffer: int = arguments.buffer
        return buffer

    def execute(self, loaded: int, arguments: Sequence[Sequence[int]]) -> list[list[int]]:
        """Run once on each device and wait; inputs are kept. Buffers of the results, device by device.

        Args:
            loaded: of `compile`.
            arguments: buffers of the inputs, device by device.
        """
        executable = self._call("PJRT_LoadedExecutable_GetExecutable", _Executable(loaded=loaded)).executable
        count = self._call("PJRT_Executable_NumOutputs", _Count(executable=executable)).count
        devices, inputs = len(arguments), len(arguments[0])
        kept = (ctypes.c_int64 * max(1, inputs))(*range(inputs))
        options = _Options(kept=ctypes.cast(kept, _POINTER), kept_count=inputs)
        options.struct_size = ctypes.sizeof(options)
        lists = [(_POINTER * max(1, inputs))(*each) for each in arguments]
        outputs = [(_POINTER * max(1, count))() for _ in range(devices)]
        events = (_POINTER * devices)()
        self._call(
            "PJRT_LoadedExecutable_Execute",
            _Execute(
                loaded=loaded,
                options=_address(options),
                arguments=ctypes.cast((_POINTER * devices)(*map(ctypes.addressof, lists)), _POINTER),
                devices_count=devices,
                arguments_count=inputs,
                outputs=ctypes.cast((_POINTER * devices)(*map(ctypes.addressof, outputs)), _POINTER),
                events=ctypes.cast(events, _POINTER),
            ),
        )
        for event in events:
            self._wait(event)
        return [[each[place] for place in range(count)] for each in outputs]

    def read(self, buffer: int, numpy_types: Any) -> np.ndarray[Any, Any]:
        """The values of a buffer, row-major.

        Args:
            numpy_types: XLA's name of a type -> numpy's.
        """
        kind = self._call("PJRT_Buffer_ElementType", _Type(buffer=buffer)).type
        found = self._call("PJRT_Buffer_Dimensions", _Dimensions(buffer=buffer))
        values = np.empty([found.dimensions[place] for place in range(found.rank)], numpy_types(_TYPES[kind]))
        layout, kept = _layout(list(reversed(range(values.ndim))))
        arguments = _ToHost(buffer=buffer, layout=_address(layout), target=values.ctypes.data, size=values.nbytes)
        self._wait(self._call("PJRT_Buffer_ToHostBuffer", arguments).event)
        del kept
        return values

    def free(self, buffer: int) -> None:
        self._call("PJRT_Buffer_Destroy", _Buffer(buffer=buffer))

    def _wait(self, event: int | None) -> None:
        if event:
            self._call("PJRT_Event_Await", _Event(event=event))
            self._call("PJRT_Event_Destroy", _Event(event=event))

    def _function(self, name: str) -> Any:
        address = ctypes.cast(self._api + _FUNCTIONS_OFFSET + 8 * _FUNCTIONS[name], ctypes.POINTER(_POINTER))[0]
        if address is None:
            raise PjrtError(f"the plugin has no {name}")
        return ctypes.CFUNCTYPE(_POINTER, _POINTER)(address)

    def _call(self, name: str, arguments: Any) -> Any:
        arguments.struct_size = ctypes.sizeof(arguments)
        error = self._function(name)(_address(arguments))
        if error:
            message = _Message(error=error)
            message.struct_size = ctypes.sizeof(message)
            self._function("PJRT_Error_Message")(_address(message))
            text = ctypes.string_at(message.text, message.size).decode("utf-8", "replace")
            destroyed = _Error(error=error)
            destroyed.struct_size = ctypes.sizeof(destroyed)
            self._function("PJRT_Error_Destroy")(_address(destroyed))
            raise PjrtError(f"{name}: {text}")
        return arguments


def _address(structure: ctypes.Structure) -> int:
    return ctypes.addressof(structure)


def _layout(order: Sequence[int]) -> tuple[Any, Any]:
    """A layout without tiles, and what has to live as long as it."""
    numbers = (ctypes.c_int64 * max(1, len(order)))(*order)
    layout = _Layout()
    layout.struct_size = ctypes.sizeof(layout)
    layout.tiled.struct_size = ctypes.sizeof(layout.tiled)
    layout.tiled.order, layout.tiled.order_size = ctypes.cast(numbers, _POINTER), len(order)
    return layout, numbers


def _named_values(options: Mapping[str, str | int | bool]) -> Any:
    values = (_NamedValue * max(1, len(options)))()
    for value, (name, given) in zip(values, options.items(), strict=False):
        value.struct_size, value.name, value.name_size = ctypes.sizeof(_NamedValue), name.encode(), len(name.encode())
        value.value_size = 1
        if isinstance(given, bool):
            value.kind, value.value.boolean = 4, given
        elif isinstance(given, int):
            value.kind, value.value.integer = 1, given
        else:
            value.kind, value.value.text, value.value_size = 0, given.encode(), len(given.encode())
    return values
