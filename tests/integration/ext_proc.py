"""A gateway as Envoy is one towards its external processor: a real gRPC client
(grpcio), messages by Google's protobuf from the field numbers of Envoy's
external_processor.proto, written down here once more, and what Envoy sends in
which mode and order.

    gateway = Gateway(node.at("extproc"))
    with gateway.ask(body) as call:             # as FULL_DUPLEX_STREAMED
        told = call.told()                      # told.endpoints, told.headers, told.body
        call.answer(200, [piece, piece])        # of the worker

Both modules come with Debian's python3-grpcio; without it tests skip themselves.
"""
import queue

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    grpc = None

import harness

NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX = range(5)
PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
HEALTH = "/grpc.health.v1.Health/Check"
ENDPOINT = "x-gateway-destination-endpoint"

# message: [(field, number, type)]; a type in brackets is repeated, one of
# the messages begins with a capital. "map X" is a map from texts to X.
MESSAGES = {
    "HeaderValue": [("key", 1, "string"), ("value", 2, "string"), ("raw_value", 3, "bytes")],
    "HeaderMap": [("headers", 1, "[HeaderValue]")],
    "HeaderValueOption": [("header", 1, "HeaderValue"), ("append_action", 3, "int32")],
    "HttpHeaders": [("headers", 1, "HeaderMap"), ("end_of_stream", 3, "bool")],
    "HttpBody": [("body", 1, "bytes"), ("end_of_stream", 2, "bool")],
    "HttpTrailers": [("trailers", 1, "HeaderMap")],
    "ListValue": [("values", 1, "[Value]")],
    "Value": [("string_value", 3, "string"), ("struct_value", 5, "Struct"),
              ("list_value", 6, "ListValue")],
    "Struct": [("fields", 1, "map Value")],
    "Metadata": [("filter_metadata", 1, "map Struct")],
    "ProtocolConfiguration": [("request_body_mode", 1, "int32"),
                              ("response_body_mode", 2, "int32")],
    "ProcessingRequest": [("request_headers", 2, "HttpHeaders"),
                          ("response_headers", 3, "HttpHeaders"), ("request_body", 4, "HttpBody"),
                          ("response_body", 5, "HttpBody"), ("request_trailers", 6, "HttpTrailers"),
                          ("response_trailers", 7, "HttpTrailers"),
                          ("metadata_context", 8, "Metadata"), ("attributes", 9, "map Struct"),
                          ("observability_mode", 10, "bool"),
                          ("protocol_config", 11, "ProtocolConfiguration")],
    "HeaderMutation": [("set_headers", 1, "[HeaderValueOption]"), ("remove_headers", 2, "[string]")],
    "StreamedBodyResponse": [("body", 1, "bytes"), ("end_of_stream", 2, "bool")],
    "BodyMutation": [("body", 1, "bytes"), ("streamed_response", 3, "StreamedBodyResponse")],
    "CommonResponse": [("status", 1, "int32"), ("header_mutation", 2, "HeaderMutation"),
                       ("body_mutation", 3, "BodyMutation"), ("clear_route_cache", 5, "bool")],
    "HeadersResponse": [("response", 1, "CommonResponse")],
    "BodyResponse": [("response", 1, "CommonResponse")],
    "TrailersResponse": [("header_mutation", 1, "HeaderMutation")],
    "HttpStatus": [("code", 1, "int32")],
    "ImmediateResponse": [("status", 1, "HttpStatus"), ("headers", 2, "HeaderMutation"),
                          ("body", 3, "bytes")],
    "ProcessingResponse": [("request_headers", 1, "HeadersResponse"),
                           ("response_headers", 2, "HeadersResponse"),
                           ("request_body", 3, "BodyResponse"), ("response_body", 4, "BodyResponse"),
                           ("request_trailers", 5, "TrailersResponse"),
                           ("response_trailers", 6, "TrailersResponse"),
                           ("immediate_response", 7, "ImmediateResponse"),
                           ("dynamic_metadata", 8, "Struct")],
    "HealthRequest": [("service", 1, "string")],
    "HealthResponse": [("status", 1, "int32")],
}


def describe():
    """The messages as protobuf's own classes."""
    of = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="e.proto", package="e", syntax="proto3")

    def add(message, name, number, kind):
        field = message.field.add(name=name, number=number, label=of.LABEL_OPTIONAL)
        if kind.startswith("["):
            field.label, kind = of.LABEL_REPEATED, kind[1:-1]
        if kind.startswith("map "):
            entry = message.nested_type.add(name="".join(
                word.capitalize() for word in name.split("_")) + "Entry")
            entry.options.map_entry = True
            add(entry, "key", 1, "string")
            add(entry, "value", 2, kind[4:])
            field.label, field.type = of.LABEL_REPEATED, of.TYPE_MESSAGE
            field.type_name = f".e.{message.name}.{entry.name}"
        elif kind[0].isupper():
            field.type, field.type_name = of.TYPE_MESSAGE, ".e." + kind
        else:
            field.type = getattr(of, "TYPE_" + kind.upper())

    for message_name, fields in MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for field in fields:
            add(message, *field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName("e." + name))
            for name in MESSAGES}


M = describe() if grpc else {}


def header_map(headers):
    return M["HeaderMap"](headers=[M["HeaderValue"](key=k, raw_value=v.encode())
                                   for k, v in headers.items()])


def part(kind, **more):
    return M["ProcessingRequest"](**{kind: more.pop("value")}, **more)


class Told:
    """What became of a request: a worker, or an answer of the node's own."""

    def __init__(self):
        self.status = None  # of an immediate response
        self.headers = {}   # that are set, by name
        self.removed = []
        self.endpoints = []
        self.metadata = None
        self.body = None    # as it is sent back, or replaced; None: as it came

    def take(self, common):
        for option in common.header_mutation.set_headers:
            assert option.append_action == 2, option  # OVERWRITE_IF_EXISTS_OR_ADD
            self.headers[option.header.key] = option.header.raw_value.decode()
        self.removed += common.header_mutation.remove_headers
        if ENDPOINT in self.headers:
            self.endpoints = self.headers[ENDPOINT].split(",")


class Call:
    """One request's stream. Everything that waits has a bound."""

    def __init__(self, gateway, mode, response_mode):
        self.mode, self.response_mode = mode, response_mode
        self.out = queue.Queue()
        self.early = None  # an answer of the node's own, before it was waited for
        self.stream = gateway.process(iter(self.out.get, None), timeout=harness.IO_TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, *unused):
        if kind is None:
            self.end()
        else:  # the test has failed, and waits for nothing more
            self.stream.cancel()
            self.out.put(None)

    def send(self, kind, value, **more):
        self.out.put(part(kind, value=value, **more))

    def receive(self, kind):
        """The next message, which is of that kind, or the node's own answer."""
        message = self.early or next(self.stream)
        self.early = None
        if not message.HasField("immediate_response"):
            assert message.HasField(kind), (kind, message)
        return message

    def head(self, headers, ends=False, metadata=None, config=True):
        more = {}
        if config:
            more["protocol_config"] = M["ProtocolConfiguration"](
                request_body_mode=self.mode, response_body_mode=self.response_mode)
        if metadata is not None:
            more["metadata_context"] = metadata
        self.send("request_headers",
                  M["HttpHeaders"](headers=header_map(headers), end_of_stream=ends), **more)

    def body(self, piece, ends):
        self.send("request_body", M["HttpBody"](body=piece, end_of_stream=ends))

    def told(self, has_body=True):
        """Reads up to the end of what the node says of the request."""
        told = Told()
        first = "request_headers" if self.mode == DUPLEX or not has_body else "request_body"
        message = self.receive(first)
        if self.immediate(message, told):
            return told
        common = getattr(message, first).response
        told.take(common)
        assert common.clear_route_cache, message
        told.metadata = {space: {key: value.string_value for key, value
                                 in fields.struct_value.fields.items()}
                         for space, fields in message.dynamic_metadata.fields.items()}
        if self.mode != DUPLEX:
            if common.HasField("body_mutation"):
                told.body = common.body_mutation.body
            return told
        told.body, ends = b"", not has_body
        while not ends:
            piece = self.receive("request_body").request_body.response.body_mutation
            told.body += piece.streamed_response.body
            ends = piece.streamed_response.end_of_stream
        return told

    def immediate(self, message, told):
        if not message.HasField("immediate_response"):
            return False
        immediate = message.immediate_response
        told.status, told.body = immediate.status.code, immediate.body
        for option in immediate.headers.set_headers:
            told.headers[option.header.key.lower()] = option.header.raw_value.decode()
        return True

    def answer_head(self, status, ends=False, headers=None, served=None):
        metadata = {}
        if served is not None:
            metadata = {"metadata_context": M["Metadata"](filter_metadata={"envoy.lb": M["Struct"](
                fields={ENDPOINT + "-served": M["Value"](string_value=served)})})}
        self.send("response_headers", M["HttpHeaders"](headers=header_map(
            {":status": str(status), "content-type": "application/json", **(headers or {})}),
            end_of_stream=ends), **metadata)
        self.receive("response_headers")

    def answer_piece(self, piece, ends):
        self.send("response_body", M["HttpBody"](body=piece, end_of_stream=ends))
        response = self.receive("response_body").response_body.response
        if self.response_mode == DUPLEX:
            back = response.body_mutation.streamed_response
            assert (back.body, back.end_of_stream) == (piece, ends), back
        else:
            assert not response.HasField("body_mutation"), response

    def answer(self, status, pieces, **more):
        self.answer_head(status, ends=not pieces, **more)
        for i, piece in enumerate(pieces):
            self.answer_piece(piece, i == len(pieces) - 1)

    def end(self):
        """The gateway says no more; the node ends the stream in peace."""
        self.out.put(None)
        for message in self.stream:
            raise AssertionError(f"unasked: {message}")
        assert self.stream.code() == grpc.StatusCode.OK, self.stream.code()


class Gateway:
    """Connections to a picker."""

    def __init__(self, address, credentials=None, options=()):
        host, port = address
        target = f"{host}:{port}"
        # Each gateway has a connection of its own.
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        self.channel = (grpc.secure_channel(target, credentials, options) if credentials
                        else grpc.insecure_channel(target, options))
        self.process = self.channel.stream_stream(
            PROCESS, request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=lambda b: M["ProcessingResponse"].FromString(b))
        self.check = self.channel.unary_unary(
            HEALTH, request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=lambda b: M["HealthResponse"].FromString(b))

    def health(self, service=""):
        return self.check(M["HealthRequest"](service=service),
                          timeout=harness.IO_TIMEOUT_S).status

    def call(self, mode=DUPLEX, response_mode=DUPLEX):
        return Call(self, mode, response_mode)

    def ask(self, body, path="/v1/completions", mode=DUPLEX, response_mode=DUPLEX, pieces=1,
            headers=None, metadata=None):
        """A request with this body, sent in so many pieces, as Envoy does."""
        call = self.call(mode, response_mode)
        call.head({":method": "POST", ":scheme": "http", ":authority": "gateway", ":path": path,
                   "content-type": "application/json", "content-length": str(len(body)),
                   **(headers or {})}, metadata=metadata)
        if mode == BUFFERED:
            message = call.receive("request_headers")
            if message.HasField("immediate_response"):
                call.early = message
                return call
            assert not message.request_headers.response.HasField("header_mutation"), message
            call.body(body, True)
            return call
        step = -(-len(body) // pieces) or 1
        for at in range(0, len(body), step):
            call.body(body[at:at + step], at + step >= len(body))
        return call

    def close(self):
        self.channel.close()
