#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/base/flags.h"

struct pair {
    const char *name;
    const char *value;
};

static struct options {
    const char *file;
    const char *names[2];
    uint32_t names_count;
    struct pair keys[2];
    uint32_t keys_count;
    const char *operands[2];
    uint32_t operands_count;
    uint64_t count;
    double seconds;
    uint32_t choice;
    bool help;
} options;

#define AT(member) offsetof(struct options, member)

static const struct flag table[] = {
    {.name = "config", .kind = FLAG_ANY, .at = AT(file), .letter = 'c'},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(help), .letter = 'h'},
    {.name = "name",
     .kind = FLAG_LIST,
     .at = AT(names),
     .max = 2,
     .count_at = AT(names_count)},
    {.name = "limits.body_bytes_max",
     .kind = FLAG_PAIR,
     .at = AT(keys),
     .max = 2,
     .count_at = AT(keys_count)},
    {.name = "lanes",
     .kind = FLAG_PAIR,
     .at = AT(keys),
     .max = 2,
     .count_at = AT(keys_count)},
    {.name = "count",
     .kind = FLAG_COUNT,
     .at = AT(count),
     .min = 1,
     .max = 9,
     .value = "N",
     .preset = "3",
     .help = "how many"},
    {.name = "seconds",
     .kind = FLAG_REAL,
     .at = AT(seconds),
     .min = 0.1,
     .max = 10},
    {.name = "choice",
     .kind = FLAG_CHOICE,
     .at = AT(choice),
     .value = "one|two",
     .help = "which one"},
    {.name = "DIR",
     .kind = FLAG_OPERAND,
     .at = AT(operands),
     .max = 2,
     .count_at = AT(operands_count)},
};

#define TABLE_COUNT (sizeof table / sizeof table[0])

static const struct flags all = {table, TABLE_COUNT};
static const struct flags no_operands = {table, TABLE_COUNT - 1};
static char fault[FLAGS_FAULT_MAX];

static int
parse(const struct flags *flags, const char *const *words)
{
    static char copy[16][2 * FLAGS_TEXT_MAX];
    char *argv[17];
    int argc = 0;

    for (; words[argc] != NULL; argc++) {
        (void)snprintf(copy[argc], sizeof copy[argc], "%s", words[argc]);
        argv[argc] = copy[argc];
    }
    argv[argc] = NULL;
    options = (struct options){.help = false};
    return flags_parse(flags, &options, argv, fault, sizeof fault);
}

#define PARSE(...) parse(&all, (const char *const[]){__VA_ARGS__, NULL})

static void
expect_fault(const char *wanted, int outcome)
{
    cr_assert_eq(outcome, FLAGS_E_BAD);
    cr_assert_str_eq(fault, wanted);
}

Test(node_flags, values_come_joined_or_next)
{
    static const char *const forms[][3] = {{"--config", "a", NULL},
                                           {"--config=a", NULL},
                                           {"-c", "a", NULL},
                                           {"-ca", NULL}};

    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(parse(&all, forms[i]), 0, "%s", fault);
        cr_assert_str_eq(options.file, "a");
    }
    cr_assert_eq(PARSE("--config="), 0);
    cr_assert_str_eq(options.file, "");
    cr_assert_eq(PARSE("-c", "-"), 0);
    cr_assert_str_eq(options.file, "-");
    cr_assert_eq(PARSE("--lanes", "--x", "-h"), 0);
    cr_assert_str_eq(options.keys[0].value, "--x");
    cr_assert(options.help);
}

Test(node_flags, presets_hold_until_a_value_is_given)
{
    cr_assert_eq(PARSE("--help"), 0);
    cr_assert_eq(options.count, 3);
    cr_assert_eq(PARSE("--count", "4", "--count=5"), 0);
    cr_assert_eq(options.count, 5);
}

Test(node_flags, pairs_keep_their_names_and_order)
{
    cr_assert_eq(PARSE("--lanes=2", "--limits.body_bytes_max", "x y"), 0);
    cr_assert_eq(options.keys_count, 2);
    cr_assert_str_eq(options.keys[0].name, "lanes");
    cr_assert_str_eq(options.keys[0].value, "2");
    cr_assert_str_eq(options.keys[1].name, "limits.body_bytes_max");
    cr_assert_str_eq(options.keys[1].value, "x y");
    expect_fault("--lanes is one option too many",
                 PARSE("--lanes=1", "--lanes=2", "--lanes=3"));
}

Test(node_flags, everything_behind_two_dashes_is_an_operand)
{
    cr_assert_eq(PARSE("-", "--", "--config"), 0);
    cr_assert_eq(options.operands_count, 2);
    cr_assert_str_eq(options.operands[0], "-");
    cr_assert_str_eq(options.operands[1], "--config");
    cr_assert_eq(PARSE("--", "--"), 0);
    cr_assert_str_eq(options.operands[0], "--");
    expect_fault("one operand too many: \"c\"", PARSE("a", "b", "c"));
    expect_fault("takes no operand: a",
                 parse(&no_operands, (const char *const[]){"a", NULL}));
}

Test(node_flags, faults_name_the_option_and_what_is_near)
{
    expect_fault("unknown option --confg, did you mean --config? "
                 "(see --help)",
                 PARSE("--confg", "a"));
    expect_fault("unknown option --limits.body_byte_max, did you mean "
                 "--limits.body_bytes_max? (see --help)",
                 PARSE("--limits.body_byte_max=1"));
    expect_fault("unknown option --zzz\\u001b[2J (see --help)",
                 PARSE("--zzz\033[2J"));
    expect_fault("unknown option -x (see --help)", PARSE("-x"));
    expect_fault("unknown option --con (see --help)", PARSE("--con", "a"));
    expect_fault("unknown option --DIR (see --help)", PARSE("--DIR", "a"));
    expect_fault("--config needs a value", PARSE("--config"));
    expect_fault("--config appears twice", PARSE("--config=a", "-cb"));
    expect_fault("--help takes no value", PARSE("--help=yes"));
    expect_fault("--help takes no value", PARSE("-hx"));
}

Test(node_flags, the_manual_names_values_choices_and_presets)
{
    struct buf out;

    buf_init(&out, 4096);
    flags_help(&all, &out);
    buf_add(&out, "", 1);
    cr_assert_not_null(strstr(out.ptr, "  --choice WORD "));
    cr_assert_not_null(strstr(out.ptr, "  one|two:\n"));
    cr_assert_not_null(strstr(out.ptr, "which one\n"));
    cr_assert_not_null(strstr(out.ptr, "  --count N "));
    cr_assert_not_null(strstr(out.ptr, "how many (3)\n"));
    cr_assert_null(strstr(out.ptr, "DIR"));
    buf_fini(&out);
}

Test(node_flags, a_name_is_plain_and_not_too_long)
{
    char name[FLAGS_TEXT_MAX + 2];

    memset(name, 'x', sizeof name);
    name[FLAGS_TEXT_MAX] = '\0';
    cr_assert_eq(PARSE("--name", name), 0);
    name[FLAGS_TEXT_MAX] = 'x';
    name[FLAGS_TEXT_MAX + 1] = '\0';
    cr_assert_eq(PARSE("--name", name), FLAGS_E_BAD);
    cr_assert_eq(PARSE("--name", "a\"b"), FLAGS_E_BAD);
    cr_assert_eq(PARSE("--name", ""), FLAGS_E_BAD);
}

Test(node_flags, faults_say_what_was_expected)
{
    expect_fault("--count: expected a whole number from 1 to 9, not \"1.5\"",
                 PARSE("--count", "1.5"));
    expect_fault("--seconds: expected a number from 0.1 to 10, not \"nan\"",
                 PARSE("--seconds", "nan"));
    expect_fault("--choice: expected one|two, not \"three\"",
                 PARSE("--choice=three"));
    expect_fault("--name: expected up to 2 plain names, not \"a b\"",
                 PARSE("--name=a b"));
    expect_fault("--name: expected up to 2 plain names, not \"c\"",
                 PARSE("--name=a", "--name=b", "--name=c"));
}
