/* What the death of the process that reads a file says of it. */
#include "storage/apart.h"

#include <criterion/criterion.h>
#include <signal.h>

static int deadly;

static enum storage_outcome
die(struct storage_io *io, const char *name)
{
    (void)io;
    (void)name;
    (void)raise(deadly);
    return STORAGE_OK;
}

static struct storage_report
report_of(int signal)
{
    const struct storage_io_ops ops = {.open = die};
    struct storage_io io = {.ops = &ops};
    struct storage_report report;

    deadly = signal;
    storage_verify_apart(&io, "snapshot", "", 60, &report);
    return report;
}

Test(storage_apart, a_file_that_kills_its_reader_is_corrupt)
{
    cr_assert_eq(report_of(SIGBUS).outcome, STORAGE_E_CORRUPT);
    cr_assert_eq(report_of(SIGSEGV).outcome, STORAGE_E_CORRUPT);
    cr_assert_eq(report_of(SIGABRT).outcome, STORAGE_E_CORRUPT);
}

Test(storage_apart, a_slow_disk_and_little_memory_are_no_fault_of_the_file)
{
    struct storage_report late = report_of(SIGALRM);

    cr_assert_eq(late.outcome, STORAGE_E_IO);
    cr_assert_str_eq(late.reason, "reading it took too long");
    cr_assert_str_eq(late.file, "snapshot");
    cr_assert_eq(report_of(SIGKILL).outcome, STORAGE_E_IO);
}
