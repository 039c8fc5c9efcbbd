/* How content is passed, as vLLM chooses it: _detect_content_format() said the
 * same of each of these. */
#include <criterion/criterion.h>

#include "node/template/template.h"

static bool
takes(enum template_rule rule, const char *source)
{
    struct template_error error;
    struct template *compiled = template_compile(slice_of(source), &error);
    bool takes = false;

    cr_assert_not_null(compiled, "%s", error.text);
    takes = template_takes_parts(compiled, rule);
    template_free(compiled);
    return takes;
}

static bool
takes_parts(const char *source)
{
    return takes(TEMPLATE_VLLM, source);
}

#define OF(list, content)     \
    "{% for m in " list " %}" \
    "{% for c in " content " %}{% endfor %}{% endfor %}"

Test(node_template_parts, a_loop_over_a_message_s_content_takes_parts)
{
    cr_assert(takes_parts("{% for m in messages %}{% if m.content is string %}"
                          "{% else %}{% for c in m.content %}{% endfor %}"
                          "{% endif %}{% endfor %}"));
    cr_assert(takes_parts(
        "{% set all = messages[1:] %}" OF("all", "m['content'] | list")));
    cr_assert(takes_parts("{% for c in content %}{% endfor %}"));
    cr_assert(takes_parts("{% set x %}{% call f() %}" OF(
        "messages", "m.content") "{% endcall %}"
                                 "{% endset %}"));
}

Test(node_template_parts, other_templates_take_text)
{
    cr_assert(!takes_parts("{% for m in messages %}{{ m.content }}"
                           "{% endfor %}"));
    cr_assert(!takes_parts(OF("others", "m.content")));
    cr_assert(!takes_parts(OF("messages", "m.tool_calls")));
    cr_assert(!takes_parts("{% for i, m in messages %}{% for c in m.content %}"
                           "{% endfor %}{% endfor %}"));
}

Test(node_template_parts, messages_may_be_a_namespace_s_member)
{
    cr_assert(takes_parts("{% set ns = namespace(all=messages, n=0) %}" OF(
        "ns.all", "m.content")));
    cr_assert(takes_parts(
        "{% set ns = namespace(all=[]) %}"
        "{% set ns.all = messages[1:] %}" OF("ns.all | list", "m.content")));
    cr_assert(
        takes_parts("{% set ns = namespace(all=messages) %}"
                    "{% set rest = ns.all[1:] %}" OF("rest", "m.content")));
    cr_assert(!takes_parts(
        "{% set ns = namespace(all=messages) %}" OF("ns.others", "m.content")));
    cr_assert(!takes_parts(
        "{% set ns = dict(all=messages) %}" OF("ns.all", "m.content")));
    cr_assert(
        takes_parts("{% set a, b = messages %}" OF("messages", "m.content")));
}

#define MACRO                                                     \
    "{% macro show(role, what) %}{% for c in what %}{% endfor %}" \
    "{% endmacro %}"
#define CALLED(call) "{% for m in messages %}{{ " call " }}{% endfor %}"

Test(node_template_parts, a_macro_s_parameter_may_be_a_content)
{
    cr_assert(takes_parts(MACRO CALLED("show(m.role, m.content)")));
    cr_assert(takes_parts(MACRO CALLED("'a' ~ show(what=m['content'])")));
    cr_assert(!takes_parts(MACRO CALLED("show(m.content, m.role)")));
    cr_assert(!takes_parts(MACRO CALLED("other(m.role, m.content)")));
    cr_assert(!takes_parts("{% macro show(content) %}{% for c in content %}"
                           "{% endfor %}{% endmacro %}"));
}

Test(node_template_parts, sglang_goes_by_words_and_names)
{
    cr_assert(takes(TEMPLATE_SGLANG, "{# no vision #}"));
    cr_assert(takes(TEMPLATE_SGLANG, OF("others", "m.content")));
    cr_assert(takes(TEMPLATE_SGLANG, "{% for c in message['content'] | list %}"
                                     "{% endfor %}"));
    cr_assert(!takes(TEMPLATE_SGLANG, "{% for item in messages %}"
                                      "{% for c in item.content %}{% endfor %}"
                                      "{% endfor %}"));
    cr_assert(!takes(TEMPLATE_SGLANG, MACRO CALLED("show(0, m.content)")));
}
