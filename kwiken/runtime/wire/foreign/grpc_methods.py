"""Methods of foreign gRPC services: request and reply types from a descriptor set or by server reflection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import DecodeError, Message
from grpc_reflection.v1alpha import reflection_pb2

from kwiken.base.errors import InputError
from kwiken.base.machine.files import read_file
from kwiken.model.service.remote import Templates
from kwiken.model.service.template import TemplatePlace

# Both versions of the protocol have the same messages.
REFLECTION_METHODS: Final = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
REFLECTION_TIMEOUT_S: Final = 10.0
MAX_DESCRIPTORS: Final = 16 << 20  # bytes of a descriptor set
MAX_FILES: Final = 2000  # `.proto` files that one method's types may need
MAX_LISTED: Final = 20  # names in a message
WELL_KNOWN: Final = "google.protobuf."  # types whose JSON form is not that of their fields


class MethodError(Exception):
    """The method cannot be called as the stage defines it; the message says why."""


class UnreachableError(Exception):
    """The service could not be asked for its types."""


class Method(NamedTuple):
    """Method of a gRPC service.

    Attributes:
        path: path of its calls, `/package.Service/Method`.
    """

    path: str
    request: type[Message]
    reply: type[Message]
    streams: bool


def method_in(files: Iterable[bytes], name: str) -> Method:
    """Method by its name in `.proto` files.

    Args:
        files: serialised file descriptors with all that they import, in any order; well-known types of
            Protocol Buffers may be missing.

    Raises:
        MethodError: the files are damaged or incomplete, or there is no such method.
    """
    pool = descriptor_pool.DescriptorPool()
    _add_all(pool, files)
    service_name, _, method_name = name.partition("/")
    try:
        service = pool.FindServiceByName(service_name)
    except KeyError:
        raise MethodError(f"there is no service {service_name!r} in its descriptors") from None
    method: MethodDescriptor | None = service.methods_by_name.get(method_name)
    if method is None:
        known = ", ".join(sorted(service.methods_by_name)[:MAX_LISTED]) or "none"
        raise MethodError(f"service {service_name!r} has no method {method_name!r}; it has: {known}")
    if method.client_streaming:
        raise MethodError(f"method {name!r} takes a stream of requests, and a call has only one")
    return Method(
        path=f"/{name}",
        request=message_factory.GetMessageClass(method.input_type),
        reply=message_factory.GetMessageClass(method.output_type),
        streams=method.server_streaming,
    )


def _add_all(pool: descriptor_pool.DescriptorPool, files: Iterable[bytes]) -> None:
    """Add files to a pool, each after all that it imports."""
    try:
        parsed = [descriptor_pb2.FileDescriptorProto.FromString(text) for text in files]
        waiting = {file.name: file for file in parsed}
        added: set[str] = set()
        while waiting:
            ready = [file for file in waiting.values() if added.issuperset(file.dependency)]
            for file in ready:
                pool.Add(file)
                added.add(file.name)
                del waiting[file.name]
            if not ready:
                lacking = {name for file in waiting.values() for name in file.dependency} - added
                for name in sorted(lacking - waiting.keys()) or [min(waiting)]:
                    waiting[name] = _well_known(name)
    except (DecodeError, TypeError, ValueError) as error:
        raise MethodError(f"its descriptors are damaged: {error}") from error


def _well_known(name: str) -> descriptor_pb2.FileDescriptorProto:
    """File that comes with Protocol Buffers themselves."""
    try:
        if name.startswith("google/protobuf/"):
            __import__(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        text = descriptor_pool.Default().FindFileByName(name).serialized_pb
    except (KeyError, ImportError):
        raise MethodError(
            f"its descriptors lack {name!r}, which they import; make them by protoc --include_imports"
        ) from None
    return descriptor_pb2.FileDescriptorProto.FromString(text)


def files_in(path: str) -> list[bytes]:
    """Files of a descriptor set.

    Raises:
        MethodError: the file cannot be read, or is no descriptor set.
    """
    try:
        text = read_file(Path(path), MAX_DESCRIPTORS)
        found = descriptor_pb2.FileDescriptorSet.FromString(text)
    except OSError as error:
        raise MethodError(f"its descriptors {path!r} cannot be read: {error.strerror or error}") from error
    except InputError as error:
        raise MethodError(f"its descriptors {path!r}: {error}") from error
    except DecodeError:
        raise MethodError(
            f"{path!r} is not a descriptor set; make one by protoc --include_imports --descriptor_set_out=..."
        ) from None
    return [file.SerializeToString() for file in found.file]


async def reflected(channel: grpc.aio.Channel, name: str) -> Method:
    """Method by its name, as the service itself describes it.

    Args:
        channel: connection to a replica of the service.

    Raises:
        MethodError: the service has no reflection, or no such method.
        UnreachableError: the service does not answer.
    """
    for path in REFLECTION_METHODS:
        try:
            async with asyncio.timeout(REFLECTION_TIMEOUT_S):
                return method_in(await _Reflection(channel, path).files_of(name.partition("/")[0]), name)
        except TimeoutError:
            raise UnreachableError(f"no answer within {REFLECTION_TIMEOUT_S:g} s") from None
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise UnreachableError(f"{error.code().name}: {error.details()}") from error
    raise MethodError(
        "the service has no server reflection; give its descriptors: GrpcCall(..., descriptors=PATH)"
    )


class _Reflection:
    """Asks one server for its `.proto` files."""

    def __init__(self, channel: grpc.aio.Channel, path: str) -> None:
        # The method takes a stream of questions. Here the only question is sent together with the head of the
        # call: after the head, a server that refuses the method could end the call before the question was
        # written, and gRPC would report an internal error instead of the refusal.
        self._method = channel.unary_stream(
            path,
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )

    async def files_of(self, service: str) -> list[bytes]:
        """Serialised file that defines a service, with all files that it imports."""
        answer = await self._ask(file_containing_symbol=service)
        if answer.HasField("error_response"):
            names = [each.name for each in (await self._ask(list_services="")).list_services_response.service]
            known = ", ".join(sorted(names)[:MAX_LISTED]) or "none"
            raise MethodError(f"the server has no service {service!r}; it has: {known}")
        files: dict[str, bytes] = {}
        wanted: list[str] = []
        while True:
            for text in answer.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(text)
                files[file.name] = text
                wanted += file.dependency
            wanted = [name for name in wanted if name not in files]
            if not wanted:
                return list(files.values())
            if len(files) > MAX_FILES:
                raise MethodError(f"its types need more than {MAX_FILES} files")
            answer = await self._ask(file_by_filename=wanted[0])
            if answer.HasField("error_response"):
                files[wanted[0]] = _well_known(wanted[0]).SerializeToString()

    async def _ask(self, **question: str) -> Any:
        call = self._method(reflection_pb2.ServerReflectionRequest(**question))
        try:
            answer = await call.read()
            if answer is grpc.aio.EOF:
                raise grpc.aio.AioRpcError(
                    await call.code(), await call.initial_metadata(), await call.trailing_metadata()
                )
            return answer
        finally:
            call.cancel()


def check_types(
    method: Method, templates: Templates, inputs: Sequence[Any], answer: Any, *, streams: bool = False
) -> None:
    """Check that a stage's template and declared types fit the method's messages.

    Args:
        answer: type of the answer, or of each item where the stage streams.
        streams: whether the stage streams.

    Raises:
        MethodError: a field that is sent or needed does not exist; names message and field.
    """
    assert templates.body is not None
    _check_tree(templates.body.tree, method.request.DESCRIPTOR, inputs)
    if streams and not method.streams:
        raise MethodError(f"method {method.path[1:]!r} answers with one message; leave out `stream`")
    if streams or not method.streams:
        needed = {name for name, required in _fields(answer).items() if required}
        lacking = sorted(needed - set(method.reply.DESCRIPTOR.fields_by_name))
        if lacking and not _is_well_known(method.reply.DESCRIPTOR):
            raise MethodError(_no_field(method.reply.DESCRIPTOR, lacking[0], "its answer must have"))


def _check_tree(tree: Any, message: Descriptor, inputs: Sequence[Any]) -> None:
    """Check the names of a template's fields. There are three cases."""
    if _is_well_known(message):
        return
    # 1. A whole input is the message: its declared fields count.
    if isinstance(tree, TemplatePlace):
        if not tree.fields and tree.input < len(inputs):
            _known_fields(_fields(inputs[tree.input]), message)
        return
    # 2. Anything but an object is no message.
    if not isinstance(tree, dict):
        raise MethodError(f"message {message.full_name} must be an object, not {tree!r}")
    # 3. An object: each of its names is a field, and inner messages are checked alike.
    fields = _known_fields(tree, message)
    for name, inner in tree.items():
        field = fields[name]
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in inner if isinstance(inner, list) else [inner]:
            if each is not None:
                _check_tree(each, field.message_type, inputs)


def _known_fields(names: Iterable[str], message: Descriptor) -> Mapping[str, Any]:
    """Fields of a message by both of their names; raises MethodError for a name that is none of them."""
    known = {field.json_name: field for field in message.fields} | dict(message.fields_by_name)
    for name in names:
        if name not in known:
            raise MethodError(_no_field(message, name, "the stage sends"))
    return known


def _no_field(message: Descriptor, name: str, why: str) -> str:
    known = ", ".join(sorted(message.fields_by_name)[:MAX_LISTED]) or "none"
    return f"message {message.full_name} has no field {name!r}, which {why}; it has: {known}"


def _is_well_known(message: Descriptor) -> bool:
    return str(message.full_name).startswith(WELL_KNOWN)


def _fields(kind: Any) -> dict[str, bool]:
    """Encoded names of a declared object's fields, and whether each is required; empty for other types."""
    try:
        info = msgspec.inspect.type_info(kind)
    except (TypeError, ValueError, NameError):
        return {}
    objects = msgspec.inspect.StructType | msgspec.inspect.DataclassType | msgspec.inspect.TypedDictType
    return {field.encode_name: field.required for field in info.fields} if isinstance(info, objects) else {}
