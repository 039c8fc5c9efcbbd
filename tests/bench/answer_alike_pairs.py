"""Pairs of questions for answer_alike.py, made from GSM8K: another text that asks the same, or
one that looks the same and asks something else.

Each maker gets a question and a random.Random, and gives the other text, or None where the
question has nothing to change. SAME are those that a cache should answer alike, OTHER those that
it must not.
"""
import re

NAMES = ("Ottilie", "Bertram", "Xaver", "Ludmila")
NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w.,]*\d)")
WORDS = {"two": "three", "three": "four", "four": "five", "five": "six", "six": "seven",
         "twice": "half", "half": "twice"}
OPPOSITES = {"more": "fewer", "fewer": "more", "less": "more", "before": "after", "after": "before",
             "first": "last", "last": "first", "each": "all", "every": "any"}
BEGINNINGS = re.compile(r"(?:^|[.?!]\s+)([A-Z][a-z]+)")
COURTESIES = (("Please help me with this: ", ""), ("", " Thank you!"), ("Hi! Could you tell me? ", ""),
              ("", " Please explain."), ("I have a question for you. ", " Thanks in advance."))


def sentences(text):
    return re.split(r"(?<=[.?!])\s+", text.strip())


def courtesy(text, rng):
    before, after = rng.choice(COURTESIES)
    return before + text + after


def typo(text, rng):
    """Two letters of a long word in small letters change places."""
    words = [m for m in re.finditer(r"(?<![\w'])[a-z]{6,}(?![\w'])", text)
             if m.group() not in OPPOSITES and m.group() not in WORDS]
    if not words:
        return None
    m = rng.choice(words)
    at = m.start() + rng.randrange(1, len(m.group()) - 2)
    return text[:at] + text[at + 1] + text[at] + text[at + 2:]


def spaces(text, _):
    """As it comes out of another editor: each sentence on a line, no sign at the end."""
    return "\n".join(sentences(text)).rstrip(".?!")


def question_first(text, _):
    parts = sentences(text)
    return " ".join([parts[-1], *parts[:-1]]) if len(parts) > 1 and parts[-1].endswith("?") else None


def spelled(text, _):
    """A small number in digits that was a word, or the other way round."""
    for word, digit in (("two", "2"), ("three", "3"), ("four", "4"), ("five", "5"), ("six", "6")):
        for old, new in ((word, digit), (digit, word)):
            other, count = re.subn(rf"(?<![\w.,$%/:-]){old}(?![\w.,%/:-])", new, text, count=1)
            if count:
                return other
    return None


def other_number(text, rng):
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return None
    m = rng.choice(numbers)
    return text[:m.start()] + str(int(m.group()) + rng.choice((1, 2, 5, 10))) + text[m.end():]


def other_number_word(text, _):
    for word, new in WORDS.items():
        other, count = re.subn(rf"\b{word}\b", new, text, count=1)
        if count:
            return other
    return None


def swapped_numbers(text, _):
    numbers = list(NUMBER.finditer(text))
    for a, b in zip(numbers, numbers[1:]):
        if a.group() != b.group():
            return text[:a.start()] + b.group() + text[a.end():b.start()] + a.group() + text[b.end():]
    return None


def names_in(text):
    """Those that stand within a sentence, too, or begin more than one."""
    inner = set(re.findall(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b", text))
    usual = {"The", "How", "What", "If", "She", "They", "His", "Her", "Each", "When", "There", "This"}
    begin = [m for m in BEGINNINGS.findall(text) if m not in usual]
    return sorted((inner | {m for m in begin if begin.count(m) > 1}) - usual)


def other_name(text, rng):
    names = names_in(text)
    return re.sub(rf"\b{rng.choice(names)}\b", rng.choice(NAMES), text) if names else None


def swapped_names(text, _):
    names = names_in(text)
    if len(names) < 2:
        return None
    return re.sub(rf"\b({names[0]}|{names[1]})\b",
                  lambda m: names[1] if m.group() == names[0] else names[0], text)


def negation(text, _):
    for old, new in ((" does ", " does not "), (" is ", " is not "), (" can ", " cannot "),
                     (" has ", " has no "), (" are ", " are not "), (" did ", " did not ")):
        if old in text:
            return text.replace(old, new, 1)
    return None


def opposite(text, _):
    for word, new in OPPOSITES.items():
        other, count = re.subn(rf"\b{word}\b", new, text, count=1)
        if count:
            return other
    return None


def other_thing(text, _):
    """What is counted is another thing, with the same numbers; nothing guards that."""
    words = re.findall(r"\b[a-z]{4,}s\b", text)
    words = [w for w in words if w not in ("does", "this", "minus", "plus", "less", "always", "hours",
                                           "dollars", "minutes", "times", "days", "weeks")]
    if not words:
        return None
    most = max(words, key=lambda w: (words.count(w), w))
    return re.sub(rf"\b{most}\b", "violins", text)


def other_question(text, _):
    """The same story, and the last sentence asks for something else."""
    parts = sentences(text)
    if len(parts) < 2 or not parts[-1].endswith("?"):
        return None
    return " ".join([*parts[:-1], "How old is the oldest person who is mentioned?"])


SAME = (courtesy, typo, spaces, spelled, question_first)
OTHER = (other_number, other_number_word, swapped_numbers, other_name, swapped_names, negation,
         opposite, other_thing, other_question)
