/* How content is passed, as vLLM chooses it: _detect_content_format() said the
 * same of each of these. */
#include <criterion/criterion.h>

#include "node/template/template.h"

static bool
takes_parts(const char *source)
{
    struct template_error error;
    struct template *compiled = template_compile(slice_of(source), &error);
    bool takes = false;

    cr_assert_not_null(compiled, "%s", error.text);
    takes = template_takes_parts(compiled);
    template_free(compiled);
    return takes;
}

Test(node_template_parts, a_loop_over_a_message_s_content_takes_parts)
{
    cr_assert(takes_parts("{% for m in messages %}{% if m.content is string %}"
                          "{% else %}{% for c in m.content %}{% endfor %}"
                          "{% endif %}{% endfor %}"));
    cr_assert(takes_parts("{% set all = messages[1:] %}{% for m in all %}"
                          "{% for c in m['content'] | list %}{% endfor %}"
                          "{% endfor %}"));
    cr_assert(takes_parts("{% macro show(content) %}{% for c in content %}"
                          "{% endfor %}{% endmacro %}"));
    cr_assert(takes_parts("{% set x %}{% call f() %}{% for m in messages %}"
                          "{% for c in m.content %}{% endfor %}{% endfor %}"
                          "{% endcall %}{% endset %}"));
}

Test(node_template_parts, other_templates_take_text)
{
    cr_assert(!takes_parts("{% for m in messages %}{{ m.content }}"
                           "{% endfor %}"));
    cr_assert(!takes_parts("{% for m in others %}{% for c in m.content %}"
                           "{% endfor %}{% endfor %}"));
    cr_assert(!takes_parts("{% for m in messages %}{% for c in m.tool_calls %}"
                           "{% endfor %}{% endfor %}"));
    cr_assert(!takes_parts("{% for i, m in messages %}{% for c in m.content %}"
                           "{% endfor %}{% endfor %}"));
}
