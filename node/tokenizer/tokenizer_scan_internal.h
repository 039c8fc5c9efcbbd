/*
 * Known patterns by hand. Each returns the end of the word that starts at
 * text[at]; at < text.len, and the text is well-formed UTF-8.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_TOKENIZER_SCAN_INTERNAL_H
#define NODE_TOKENIZER_SCAN_INTERNAL_H

#include "node/tokenizer/tokenizer_class_internal.h"

typedef size_t tok_scan(const struct tok_classes *classes, struct slice text,
                        size_t at);

tok_scan scan_gpt2;
tok_scan scan_cl100k;
tok_scan scan_qwen2;
tok_scan scan_o200k;
tok_scan scan_deepseek;

/* Bytes of 's 't 're 've 'm 'll 'd at text[at], which is the apostrophe; 0:
 * none. `fold`: in capitals too, and with the long s, which folds to s. */
size_t scan_contraction(struct slice text, size_t at, bool fold);

#endif
