/* Classes of characters, from utf8proc's categories and the ones since. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "node/tokenizer/tokenizer_internal.h"

const struct tok_range tok_later[] = {
    /* clang-format off */
    {0x897, 0x897, TOK_M}, {0xcf3, 0xcf3, TOK_M}, {0xece, 0xece, TOK_M},
    {0x1b4e, 0x1b4f, TOK_P}, {0x1b7f, 0x1b7f, TOK_P}, {0x1c89, 0x1c89, TOK_LU},
    {0x1c8a, 0x1c8a, TOK_LL}, {0x2427, 0x2429, TOK_S}, {0x2ffc, 0x2fff, TOK_S},
    {0x31e4, 0x31e5, TOK_S}, {0x31ef, 0x31ef, TOK_S}, {0xa7cb, 0xa7cc, TOK_LU},
    {0xa7cd, 0xa7cd, TOK_LL}, {0xa7da, 0xa7da, TOK_LU},
    {0xa7db, 0xa7db, TOK_LL}, {0xa7dc, 0xa7dc, TOK_LU},
    {0x105c0, 0x105f3, TOK_LO}, {0x10d40, 0x10d49, TOK_ND},
    {0x10d4a, 0x10d4d, TOK_LO}, {0x10d4e, 0x10d4e, TOK_LM},
    {0x10d4f, 0x10d4f, TOK_LO}, {0x10d50, 0x10d65, TOK_LU},
    {0x10d69, 0x10d6d, TOK_M}, {0x10d6e, 0x10d6e, TOK_P},
    {0x10d6f, 0x10d6f, TOK_LM}, {0x10d70, 0x10d85, TOK_LL},
    {0x10d8e, 0x10d8f, TOK_S}, {0x10ec2, 0x10ec4, TOK_LO},
    {0x10efc, 0x10eff, TOK_M}, {0x1123f, 0x11240, TOK_LO},
    {0x11241, 0x11241, TOK_M}, {0x11380, 0x11389, TOK_LO},
    {0x1138b, 0x1138b, TOK_LO}, {0x1138e, 0x1138e, TOK_LO},
    {0x11390, 0x113b5, TOK_LO}, {0x113b7, 0x113b7, TOK_LO},
    {0x113b8, 0x113c0, TOK_M}, {0x113c2, 0x113c2, TOK_M},
    {0x113c5, 0x113c5, TOK_M}, {0x113c7, 0x113ca, TOK_M},
    {0x113cc, 0x113d0, TOK_M}, {0x113d1, 0x113d1, TOK_LO},
    {0x113d2, 0x113d2, TOK_M}, {0x113d3, 0x113d3, TOK_LO},
    {0x113d4, 0x113d5, TOK_P}, {0x113d7, 0x113d8, TOK_P},
    {0x113e1, 0x113e2, TOK_M}, {0x116d0, 0x116e3, TOK_ND},
    {0x11b00, 0x11b09, TOK_P}, {0x11bc0, 0x11be0, TOK_LO},
    {0x11be1, 0x11be1, TOK_P}, {0x11bf0, 0x11bf9, TOK_ND},
    {0x11f00, 0x11f01, TOK_M}, {0x11f02, 0x11f02, TOK_LO},
    {0x11f03, 0x11f03, TOK_M}, {0x11f04, 0x11f10, TOK_LO},
    {0x11f12, 0x11f33, TOK_LO}, {0x11f34, 0x11f3a, TOK_M},
    {0x11f3e, 0x11f42, TOK_M}, {0x11f43, 0x11f4f, TOK_P},
    {0x11f50, 0x11f59, TOK_ND}, {0x11f5a, 0x11f5a, TOK_M},
    {0x1342f, 0x1342f, TOK_LO}, {0x13440, 0x13440, TOK_M},
    {0x13441, 0x13446, TOK_LO}, {0x13447, 0x13455, TOK_M},
    {0x13460, 0x143fa, TOK_LO}, {0x16100, 0x1611d, TOK_LO},
    {0x1611e, 0x1612f, TOK_M}, {0x16130, 0x16139, TOK_ND},
    {0x16d40, 0x16d42, TOK_LM}, {0x16d43, 0x16d6a, TOK_LO},
    {0x16d6b, 0x16d6c, TOK_LM}, {0x16d6d, 0x16d6f, TOK_P},
    {0x16d70, 0x16d79, TOK_ND}, {0x18cff, 0x18cff, TOK_LO},
    {0x1b132, 0x1b132, TOK_LO}, {0x1b155, 0x1b155, TOK_LO},
    {0x1cc00, 0x1ccef, TOK_S}, {0x1ccf0, 0x1ccf9, TOK_ND},
    {0x1cd00, 0x1ceb3, TOK_S}, {0x1d2c0, 0x1d2d3, TOK_N},
    {0x1df25, 0x1df2a, TOK_LL}, {0x1e030, 0x1e06d, TOK_LM},
    {0x1e08f, 0x1e08f, TOK_M}, {0x1e4d0, 0x1e4ea, TOK_LO},
    {0x1e4eb, 0x1e4eb, TOK_LM}, {0x1e4ec, 0x1e4ef, TOK_M},
    {0x1e4f0, 0x1e4f9, TOK_ND}, {0x1e5d0, 0x1e5ed, TOK_LO},
    {0x1e5ee, 0x1e5ef, TOK_M}, {0x1e5f0, 0x1e5f0, TOK_LO},
    {0x1e5f1, 0x1e5fa, TOK_ND}, {0x1e5ff, 0x1e5ff, TOK_P},
    {0x1f6dc, 0x1f6dc, TOK_S}, {0x1f774, 0x1f776, TOK_S},
    {0x1f77b, 0x1f77f, TOK_S}, {0x1f7d9, 0x1f7d9, TOK_S},
    {0x1f8b2, 0x1f8bb, TOK_S}, {0x1f8c0, 0x1f8c1, TOK_S},
    {0x1fa75, 0x1fa77, TOK_S}, {0x1fa87, 0x1fa89, TOK_S},
    {0x1fa8f, 0x1fa8f, TOK_S}, {0x1faad, 0x1faaf, TOK_S},
    {0x1fabb, 0x1fabf, TOK_S}, {0x1fac6, 0x1fac6, TOK_S},
    {0x1face, 0x1facf, TOK_S}, {0x1fada, 0x1fadc, TOK_S},
    {0x1fadf, 0x1fadf, TOK_S}, {0x1fae8, 0x1fae9, TOK_S},
    {0x1faf7, 0x1faf8, TOK_S}, {0x1fbcb, 0x1fbef, TOK_S},
    {0x2b739, 0x2b739, TOK_LO}, {0x2ebf0, 0x2ee5d, TOK_LO},
    {0x31350, 0x323af, TOK_LO},
    /* clang-format on */
};
const size_t tok_later_count = sizeof tok_later / sizeof tok_later[0];

/* Letters in circles and the like: words for \w, though they are symbols. */
static const uint32_t word_symbols[][2] = {{0x24b6, 0x24e9},
                                           {0x1f130, 0x1f149},
                                           {0x1f150, 0x1f169},
                                           {0x1f170, 0x1f189}};

static uint8_t
category_flags(enum tok_category category)
{
    switch (category) {
    case TOK_LU:
    case TOK_LT:
        return TOK_LETTER | TOK_UPPER | TOK_WORD;
    case TOK_LL:
        return TOK_LETTER | TOK_LOWER | TOK_WORD;
    case TOK_LM:
    case TOK_LO:
        return TOK_LETTER | TOK_UPPER | TOK_LOWER | TOK_WORD;
    case TOK_M:
        return TOK_UPPER | TOK_LOWER | TOK_WORD;
    case TOK_ND:
        return TOK_NUMBER | TOK_WORD;
    case TOK_N:
        return TOK_NUMBER;
    case TOK_P:
        return TOK_PUNCT;
    case TOK_S:
        return 0;
    }
    return 0;
}

static uint8_t
flags_of(utf8proc_int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
        return category_flags(TOK_LU);
    case UTF8PROC_CATEGORY_LT:
        return category_flags(TOK_LT);
    case UTF8PROC_CATEGORY_LL:
        return category_flags(TOK_LL);
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return category_flags(TOK_LO);
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return category_flags(TOK_M);
    case UTF8PROC_CATEGORY_ND:
        return category_flags(TOK_ND);
    case UTF8PROC_CATEGORY_NL:
        return TOK_NUMBER | TOK_WORD;
    case UTF8PROC_CATEGORY_NO:
        return TOK_NUMBER;
    case UTF8PROC_CATEGORY_PC:
        return TOK_PUNCT | TOK_WORD;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return TOK_PUNCT;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return TOK_SPACE;
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return 0;
    }
    return 0;
}

static int
compare_range(const void *c, const void *range)
{
    uint32_t character = *(const uint32_t *)c;
    const struct tok_range *in = range;

    return character < in->first ? -1 : character > in->last;
}

bool
tok_is_sign(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

    if (category == UTF8PROC_CATEGORY_CN) {
        const struct tok_range *later = bsearch(
            &c, tok_later, tok_later_count, sizeof *tok_later, compare_range);
        return later != NULL &&
               (later->category == TOK_P || later->category == TOK_S);
    }
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_SO;
}

/* What the categories do not say. */
static uint8_t
flags_beside(utf8proc_int32_t c)
{
    uint8_t flags = 0;

    if ((c >= 9 && c <= 13) || c == 0x85) {
        flags |= TOK_SPACE;
    }
    if (c == 0x200c || c == 0x200d) {
        flags |= TOK_WORD;
    }
    for (size_t i = 0; i < sizeof word_symbols / sizeof word_symbols[0]; i++) {
        if ((uint32_t)c >= word_symbols[i][0] &&
            (uint32_t)c <= word_symbols[i][1]) {
            flags |= TOK_WORD;
        }
    }
    return flags;
}

/* Fills one page; *later is the first range that may reach it. */
static void
fill_page(uint32_t page, size_t *later, uint8_t *flags)
{
    for (uint32_t i = 0; i < TOK_PAGE_CHARS; i++) {
        uint32_t c = page * TOK_PAGE_CHARS + i;
        utf8proc_int32_t code = (utf8proc_int32_t)c;
        while (*later < tok_later_count && tok_later[*later].last < c) {
            ++*later;
        }
        bool is_later =
            *later < tok_later_count && c >= tok_later[*later].first;
        flags[i] = is_later ? category_flags(tok_later[*later].category)
                            : flags_of(code);
        flags[i] |= flags_beside(code);
        flags[i] = (uint8_t)((flags[i] & ~TOK_PUNCT) |
                             (bert_is_punctuation(c) ? TOK_PUNCT : 0));
        if (norm_needs_look(code)) {
            flags[i] |= TOK_NFC;
        }
        if (c < 128 && c > ' ' && c != 127 &&
            (flags[i] & (TOK_LETTER | TOK_NUMBER)) == 0) {
            flags[i] |= TOK_PUNCT;
        }
    }
}

/* Whether a page has characters: beyond plane 3 only the tags of plane 14 do,
 * and no flag is set for what is unassigned or private. */
static bool
page_is_used(uint32_t page)
{
    return page < 0x33000 / TOK_PAGE_CHARS ||
           page == 0xe0000 / TOK_PAGE_CHARS || page == 0xe0100 / TOK_PAGE_CHARS;
}

/* The number of an equal page, or pages. */
static uint16_t
same_page(const struct tok_classes *classes, uint16_t pages,
          const uint8_t *flags)
{
    for (uint16_t i = pages; i > 0; i--) {
        if (memcmp(classes->flags[i - 1], flags, TOK_PAGE_CHARS) == 0) {
            return (uint16_t)(i - 1);
        }
    }
    return pages;
}

const struct tok_classes *
tok_classes_new(struct tok_load *load)
{
    struct tok_classes *classes = tok_alloc(load, sizeof *classes);
    uint8_t flags[TOK_PAGE_CHARS];
    uint16_t pages = 1; /* the first is that of all pages without characters */
    size_t later = 0;

    if (classes == NULL) {
        return NULL;
    }
    classes->flags = tok_alloc_many(load, TOK_PAGES, sizeof classes->flags[0]);
    if (classes->flags == NULL) {
        return NULL;
    }
    memset(classes->flags[0], 0, TOK_PAGE_CHARS);
    for (uint32_t page = 0; page < TOK_PAGES; page++) {
        if (!page_is_used(page)) {
            classes->page[page] = 0;
            continue;
        }
        fill_page(page, &later, flags);
        uint16_t at = same_page(classes, pages, flags);
        if (at == pages) {
            memcpy(classes->flags[pages++], flags, sizeof flags);
        }
        classes->page[page] = at;
    }
    memcpy(classes->ascii, classes->flags[classes->page[0]], 128);
    return classes;
}
