#include "scan_rivals.h"

#include <simdjson.h>

namespace
{

using namespace simdjson;

struct found {
    std::string_view model;
    bool stream;
    int64_t max_tokens;
    size_t bytes; /* of text, raw tools and roles */
};

ondemand::parser &
parser()
{
    static ondemand::parser p;
    return p;
}

/* The length of a string as written. */
size_t
raw_size(ondemand::value value)
{
    std::string_view token = value.raw_json_token();
    size_t last = token.rfind('"');

    (void)value.get_raw_json_string();
    return last - 1;
}

template <bool raw>
size_t
string_size(ondemand::value value)
{
    if constexpr (raw) {
        return raw_size(value);
    } else {
        return std::string_view(value.get_string()).size();
    }
}

template <bool raw>
size_t
content_size(ondemand::value value)
{
    size_t bytes = 0;

    if (value.type() == ondemand::json_type::string) {
        return string_size<raw>(value);
    }
    if (value.type() == ondemand::json_type::array) {
        for (ondemand::object part : value.get_array()) {
            for (auto field : part) {
                if (field.key() == "text") {
                    bytes += string_size<raw>(field.value());
                }
            }
        }
    }
    return bytes;
}

template <bool raw>
size_t
messages_size(ondemand::value value)
{
    size_t bytes = 0;

    for (ondemand::object message : value.get_array()) {
        for (auto field : message) {
            ondemand::raw_json_string key = field.key();
            if (key == "role") {
                bytes += string_size<raw>(field.value());
            } else if (key == "content") {
                bytes += content_size<raw>(field.value());
            }
        }
    }
    return bytes;
}

size_t
prompt_size(ondemand::value value)
{
    size_t ids = 0;

    for (auto id : value.get_array()) {
        (void)id.get_int64().value();
        ids++;
    }
    return ids;
}

template <bool raw>
size_t
walk(const char *body, size_t len)
{
    found f = {};
    ondemand::document doc = parser().iterate(body, len, len + SCAN_PADDING);

    for (auto field : doc.get_object()) {
        ondemand::raw_json_string key = field.key();
        if (key == "model") {
            f.model = field.value().get_string();
        } else if (key == "stream") {
            f.stream = field.value().get_bool();
        } else if (key == "max_tokens") {
            f.max_tokens = field.value().get_int64();
        } else if (key == "messages") {
            f.bytes += messages_size<raw>(field.value());
        } else if (key == "tools") {
            ondemand::value value = field.value();
            f.bytes += std::string_view(to_json_string(value)).size();
        } else if (key == "prompt") {
            f.bytes += prompt_size(field.value());
        }
    }
    return f.stream && f.max_tokens != 0 && !f.model.empty() ? f.bytes : 0;
}

template <size_t (*read)(const char *, size_t)>
size_t
guarded(const char *body, size_t len)
{
    try {
        return read(body, len);
    } catch (const simdjson_error &) {
        return 0;
    }
}

size_t
dom_content(dom::element value)
{
    size_t bytes = 0;

    if (value.is_string()) {
        return std::string_view(value).size();
    }
    for (dom::element part : dom::array(value)) {
        std::string_view text;
        if (part["text"].get(text) == SUCCESS) {
            bytes += text.size();
        }
    }
    return bytes;
}

size_t
dom_walk(const char *body, size_t len)
{
    static dom::parser p;
    dom::element doc = p.parse(body, len, false);
    std::string_view model = doc["model"];
    bool stream = doc["stream"];
    int64_t max_tokens = doc["max_tokens"];
    size_t bytes = 0;
    dom::array messages;
    dom::array ids;

    if (doc["messages"].get(messages) == SUCCESS) {
        for (dom::element message : messages) {
            bytes += std::string_view(message["role"]).size();
            bytes += dom_content(message["content"]);
        }
    }
    if (doc["prompt"].get(ids) == SUCCESS) {
        bytes += ids.size();
    }
    return stream && max_tokens != 0 && !model.empty() ? bytes : 0;
}

} // namespace

size_t
rival_simdjson_raw(const char *body, size_t len)
{
    return guarded<walk<true>>(body, len);
}

size_t
rival_simdjson_text(const char *body, size_t len)
{
    return guarded<walk<false>>(body, len);
}

size_t
rival_simdjson_dom(const char *body, size_t len)
{
    return guarded<dom_walk>(body, len);
}

#define NAME_OF(x) #x
#define NAME(x)    NAME_OF(x)

const char *
rival_simdjson_name(void)
{
    return NAME(SIMDJSON_BUILTIN_IMPLEMENTATION);
}
