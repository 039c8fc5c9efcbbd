/* What two questions must have in common, and what they need not. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "node/answers/answers_guard.h"

struct pair {
    const char *one;
    const char *other;
};

static bool
is_same(const char *one, const char *other)
{
    return answers_guard(slice_of(one)) == answers_guard(slice_of(other));
}

Test(answers_guard, courtesies_and_spelling_are_left_to_the_vectors)
{
    static const struct pair same[] = {
        {"How do I reset my password?",
         "Hi! Could you please tell me how to reset my password? Thanks!"},
        {"Tom has 1,000 apples.", "tom's thing is that Tom has 1000 apples"},
        {"Tom has two apples", "Tom has 2 apples"},
        {"Tom has 1,000,000 apples", "Tom has 1000000 apples"},
        {"Summarise it", "Please summarize it!"},
        {"a ``` b", "a b"},
        {"Tom doesn't run", "Tom does not run"},
        {"Tom doesn\xE2\x80\x99t run", "Tom did not run"},
        {"is the weather nice", "is the waether nice"},
        {"Natalia sold 48.", "Please: Natalia sold 48"},
        {"It is Natalia's.", "Natalia has it"},
        {"Where's the exit?", "where is the exit"},
        {"costs 5 \xE2\x80\x94 nice", "costs 5, nice"},
        {"What is a \xE2\x80\x9C"
         "cat\xE2\x80\x9D?",
         "Tell me what a \xE2\x80\x9C"
         "cat\xE2\x80\x9D is"},
    };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        cr_expect(is_same(same[i].one, same[i].other), "%s", same[i].other);
    }
}

Test(answers_guard, what_an_answer_turns_on_is_held)
{
    static const struct pair other[] = {
        {"Tom has 3 apples", "Tom has 4 apples"},
        {"Tom has three apples", "Tom has four apples"},
        {"in twenty-five's", "in twenty-six's"},
        {"Tom has 3 apples and 5 pears", "Tom has 5 apples and 3 pears"},
        {"it weighs 5kg", "it weighs 5g"},
        {"it costs 5", "it costs 5%"},
        {"it costs $5", "it costs \xE2\x82\xAC"
                        "5"},
        {"7 - 5", "7 + 5"},
        {"2 \xC3\x97 3", "2 \xC3\xB7 3"},
        {"it is at -5", "it is at 5"},
        {"at 10:30", "at 10:40"},
        {"what does \xF0\x9F\xA5\xBA mean", "what does \xF0\x9F\x98\x82 mean"},
        {"solve for \xF0\x9D\x91\xA5", "solve for \xF0\x9D\x91\xA6"},
        {"apples\xE2\x80\x94three", "apples\xE2\x80\x94"
                                    "four"},
        {"Tom runs", "Ann runs"},
        {"I saw Tom and Ann", "I saw Ann and Tom"},
        {"it is red", "it is not red"},
        {"it is red", "it isn't red"},
        {"tea with milk", "tea without milk"},
        {"who has more", "who has less"},
        {"what is before it", "what is after it"},
        {"What is a \"cat\"?", "What is a \"dog\"?"},
        {"What is a 'cat'?", "What is a 'dog'?"},
        {"Run `ls -l` now", "Run `ls -a` now"},
        {"Run ```\nx = y\n``` now", "Run ```\nx = z\n``` now"},
        {"Summarize this text: so it is", "Paraphrase this text: so it is"},
        {"What is (2+3)*4", "What is 2+(3*4)"},
        {"in [0,1)", "in (0,1]"},
        {"What is 5!", "What is 5?"},
        {"it is .5", "it is 5"},
        {"it is -.5", "it is .5"},
        {"it is 1,5", "it is 15"},
        {"1,23,4", "12,3,4"},
        {"how in C#", "how in C"},
        {"solve for x: x+y=z", "solve for y: x+y=z"},
        {"Who founded the club?", "When was the club founded?"},
        {"Where's the end?", "When's the end?"},
        {"Why did it end?", "How did it end?"},
        {"whose is it", "who is it"},
        {"why isnt it red", "why is it red"},
        {"Translate \xE7\x8C\xAB into French",
         "Translate \xE7\x8B\x97 into French"},
        {"What did \xC3\x89mile say", "What did \xC3\x93scar say"},
        {"The sine of \xCE\xB1", "The sine of \xCE\xB2"},
    };

    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        cr_expect_not(is_same(other[i].one, other[i].other), "%s",
                      other[i].other);
    }
}

/* Texts that end in the middle of something: of what can be read, under a
 * sanitizer. */
Test(answers_guard, ends_anywhere)
{
    static const char text[] = "It's \xE2\x80\x9Cx\xE2\x80\x9D `a` ``b "
                               "'c' 1,0 \xE2\x82\xAC 'd \"e \xF0\x9F\x99\x82 "
                               "Averyveryverylongnamethatgoesonandon don't";

    for (size_t len = 0; len < sizeof text; len++) {
        char *copy = malloc(len != 0 ? len : 1);
        cr_assert_not_null(copy);
        memcpy(copy, text, len);
        struct slice exact = {copy, len};
        cr_expect_eq(answers_guard(exact), answers_guard(exact));
        free(copy);
    }
}
