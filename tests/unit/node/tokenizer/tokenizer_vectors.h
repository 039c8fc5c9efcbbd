/*
 * Small tokenizers, and the ids that the library gives to texts: made by
 * make_vectors.py with tokenizers 0.23.3. Not to be edited.
 */
#ifndef TOKENIZER_VECTORS_H
#define TOKENIZER_VECTORS_H

#include <stdint.h>

#include "index/base/slice.h"

/* clang-format off */
struct vector {
    struct slice text;
    struct slice ids; /* in decimal, with special tokens */
    struct slice bare; /* and without */
    struct slice decoded; /* of ids, special tokens left out */
};

static const char byte_level_json[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens"
    "\":[{\"id\":268,\"content\":\"<|end|>\",\"single_word\":false,\"lstrip\":"
    "false,\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":269"
    ",\"content\":\"<l>\",\"single_word\":false,\"lstrip\":true,\"rstrip\":fal"
    "se,\"normalized\":false,\"special\":false},{\"id\":270,\"content\":\"<r>"
    "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":true,\"normalized\":"
    "false,\"special\":false},{\"id\":271,\"content\":\"one\",\"single_word\":"
    "true,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":f"
    "alse},{\"id\":272,\"content\":\"<|end|>x\",\"single_word\":false,\"lstrip"
    "\":false,\"rstrip\":false,\"normalized\":false,\"special\":false}],\"norm"
    "alizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pr"
    "etokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\077i:'s|'t|"
    "'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]\077\\\\p{L}+|\\\\p{N}| "
    "\077[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+("
    "\077!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type"
    "\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_"
    "regex\":false}]},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLeve"
    "l\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false"
    "},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"conti"
    "nuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":fals"
    "e,\"byte_fallback\":false,\"vocab\":{\"\\u0100\":0,\"\\u0101\":1,\"\\u010"
    "2\":2,\"\\u0103\":3,\"\\u0104\":4,\"\\u0105\":5,\"\\u0106\":6,\"\\u0107\""
    ":7,\"\\u0108\":8,\"\\u0109\":9,\"\\u010a\":10,\"\\u010b\":11,\"\\u010c\":"
    "12,\"\\u010d\":13,\"\\u010e\":14,\"\\u010f\":15,\"\\u0110\":16,\"\\u0111"
    "\":17,\"\\u0112\":18,\"\\u0113\":19,\"\\u0114\":20,\"\\u0115\":21,\"\\u01"
    "16\":22,\"\\u0117\":23,\"\\u0118\":24,\"\\u0119\":25,\"\\u011a\":26,\"\\u"
    "011b\":27,\"\\u011c\":28,\"\\u011d\":29,\"\\u011e\":30,\"\\u011f\":31,\""
    "\\u0120\":32,\"!\":33,\"\\\"\":34,\"#\":35,\"$\":36,\"%\":37,\"&\":38,\"'"
    "\":39,\"(\":40,\")\":41,\"*\":42,\"+\":43,\",\":44,\"-\":45,\".\":46,\"/"
    "\":47,\"0\":48,\"1\":49,\"2\":50,\"3\":51,\"4\":52,\"5\":53,\"6\":54,\"7"
    "\":55,\"8\":56,\"9\":57,\":\":58,\";\":59,\"<\":60,\"=\":61,\">\":62,\""
    "\077\":63,\"@\":64,\"A\":65,\"B\":66,\"C\":67,\"D\":68,\"E\":69,\"F\":70,"
    "\"G\":71,\"H\":72,\"I\":73,\"J\":74,\"K\":75,\"L\":76,\"M\":77,\"N\":78,"
    "\"O\":79,\"P\":80,\"Q\":81,\"R\":82,\"S\":83,\"T\":84,\"U\":85,\"V\":86,"
    "\"W\":87,\"X\":88,\"Y\":89,\"Z\":90,\"[\":91,\"\\\\\":92,\"]\":93,\"^\":9"
    "4,\"_\":95,\"`\":96,\"a\":97,\"b\":98,\"c\":99,\"d\":100,\"e\":101,\"f\":"
    "102,\"g\":103,\"h\":104,\"i\":105,\"j\":106,\"k\":107,\"l\":108,\"m\":109"
    ",\"n\":110,\"o\":111,\"p\":112,\"q\":113,\"r\":114,\"s\":115,\"t\":116,\""
    "u\":117,\"v\":118,\"w\":119,\"x\":120,\"y\":121,\"z\":122,\"{\":123,\"|\""
    ":124,\"}\":125,\"~\":126,\"\\u0121\":127,\"\\u0122\":128,\"\\u0123\":129,"
    "\"\\u0124\":130,\"\\u0125\":131,\"\\u0126\":132,\"\\u0127\":133,\"\\u0128"
    "\":134,\"\\u0129\":135,\"\\u012a\":136,\"\\u012b\":137,\"\\u012c\":138,\""
    "\\u012d\":139,\"\\u012e\":140,\"\\u012f\":141,\"\\u0130\":142,\"\\u0131\""
    ":143,\"\\u0132\":144,\"\\u0133\":145,\"\\u0134\":146,\"\\u0135\":147,\"\\"
    "u0136\":148,\"\\u0137\":149,\"\\u0138\":150,\"\\u0139\":151,\"\\u013a\":1"
    "52,\"\\u013b\":153,\"\\u013c\":154,\"\\u013d\":155,\"\\u013e\":156,\"\\u0"
    "13f\":157,\"\\u0140\":158,\"\\u0141\":159,\"\\u0142\":160,\"\\u00a1\":161"
    ",\"\\u00a2\":162,\"\\u00a3\":163,\"\\u00a4\":164,\"\\u00a5\":165,\"\\u00a"
    "6\":166,\"\\u00a7\":167,\"\\u00a8\":168,\"\\u00a9\":169,\"\\u00aa\":170,"
    "\"\\u00ab\":171,\"\\u00ac\":172,\"\\u0143\":173,\"\\u00ae\":174,\"\\u00af"
    "\":175,\"\\u00b0\":176,\"\\u00b1\":177,\"\\u00b2\":178,\"\\u00b3\":179,\""
    "\\u00b4\":180,\"\\u00b5\":181,\"\\u00b6\":182,\"\\u00b7\":183,\"\\u00b8\""
    ":184,\"\\u00b9\":185,\"\\u00ba\":186,\"\\u00bb\":187,\"\\u00bc\":188,\"\\"
    "u00bd\":189,\"\\u00be\":190,\"\\u00bf\":191,\"\\u00c0\":192,\"\\u00c1\":1"
    "93,\"\\u00c2\":194,\"\\u00c3\":195,\"\\u00c4\":196,\"\\u00c5\":197,\"\\u0"
    "0c6\":198,\"\\u00c7\":199,\"\\u00c8\":200,\"\\u00c9\":201,\"\\u00ca\":202"
    ",\"\\u00cb\":203,\"\\u00cc\":204,\"\\u00cd\":205,\"\\u00ce\":206,\"\\u00c"
    "f\":207,\"\\u00d0\":208,\"\\u00d1\":209,\"\\u00d2\":210,\"\\u00d3\":211,"
    "\"\\u00d4\":212,\"\\u00d5\":213,\"\\u00d6\":214,\"\\u00d7\":215,\"\\u00d8"
    "\":216,\"\\u00d9\":217,\"\\u00da\":218,\"\\u00db\":219,\"\\u00dc\":220,\""
    "\\u00dd\":221,\"\\u00de\":222,\"\\u00df\":223,\"\\u00e0\":224,\"\\u00e1\""
    ":225,\"\\u00e2\":226,\"\\u00e3\":227,\"\\u00e4\":228,\"\\u00e5\":229,\"\\"
    "u00e6\":230,\"\\u00e7\":231,\"\\u00e8\":232,\"\\u00e9\":233,\"\\u00ea\":2"
    "34,\"\\u00eb\":235,\"\\u00ec\":236,\"\\u00ed\":237,\"\\u00ee\":238,\"\\u0"
    "0ef\":239,\"\\u00f0\":240,\"\\u00f1\":241,\"\\u00f2\":242,\"\\u00f3\":243"
    ",\"\\u00f4\":244,\"\\u00f5\":245,\"\\u00f6\":246,\"\\u00f7\":247,\"\\u00f"
    "8\":248,\"\\u00f9\":249,\"\\u00fa\":250,\"\\u00fb\":251,\"\\u00fc\":252,"
    "\"\\u00fd\":253,\"\\u00fe\":254,\"\\u00ff\":255,\"he\":256,\"ll\":257,\"h"
    "ell\":258,\"hello\":259,\"\\u0120hello\":260,\"\\u0120\\u0120\":261,\"'s"
    "\":262,\"aa\":263,\"aaa\":264,\"aaaa\":265,\"\\u00c3\\u00a9\":266,\"12\":"
    "267},\"merges\":[\"h e\",\"l l\",\"he ll\",\"hell o\",\"\\u0120 hello\","
    "\"\\u0120 \\u0120\",\"' s\",\"a a\",\"aa a\",\"aa aa\",\"\\u00c3 \\u00a9"
    "\",\"1 2\"]}}";

static const struct vector byte_level_vectors[] = {
    {SLICE(
        "hello hello"),
     SLICE(
        "259 260"),
     SLICE(
        "259 260"),
     SLICE(
        "hello hello")},
    {SLICE(
        "  hello's"),
     SLICE(
        "32 260 262"),
     SLICE(
        "32 260 262"),
     SLICE(
        "  hello's")},
    {SLICE(
        "he'S"),
     SLICE(
        "256 39 83"),
     SLICE(
        "256 39 83"),
     SLICE(
        "he'S")},
    {SLICE(
        "cafe\314\201 caf\303\251"),
     SLICE(
        "99 97 102 266 32 99 97 102 266"),
     SLICE(
        "99 97 102 266 32 99 97 102 266"),
     SLICE(
        "caf\303\251 caf\303\251")},
    {SLICE(
        "123 12"),
     SLICE(
        "49 50 51 32 49 50"),
     SLICE(
        "49 50 51 32 49 50"),
     SLICE(
        "123 12")},
    {SLICE(
        "hi<|end|>hello"),
     SLICE(
        "104 105 268 259"),
     SLICE(
        "104 105 268 259"),
     SLICE(
        "hihello")},
    {SLICE(
        "a  <l> b<r>  c"),
     SLICE(
        "97 269 32 98 270 99"),
     SLICE(
        "97 269 32 98 270 99"),
     SLICE(
        "a<l> b<r>c")},
    {SLICE(
        "one oneone _one"),
     SLICE(
        "271 32 111 110 101 111 110 101 32 95 111 110 101"),
     SLICE(
        "271 32 111 110 101 111 110 101 32 95 111 110 101"),
     SLICE(
        "one oneone _one")},
    {SLICE(
        "<|end|>x<|end|>"),
     SLICE(
        "272 268"),
     SLICE(
        "272 268"),
     SLICE(
        "<|end|>x")},
    {SLICE(
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "a"),
     SLICE(
        "265 265 265 265 265 265 265 265 265 265 265 265 265 265 265 265 265 2"
        "63"),
     SLICE(
        "265 265 265 265 265 265 265 265 265 265 265 265 265 265 265 265 265 2"
        "63"),
     SLICE(
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "a")},
    {SLICE(
        "\015\012\012  x"),
     SLICE(
        "13 10 10 32 32 120"),
     SLICE(
        "13 10 10 32 32 120"),
     SLICE(
        "\015\012\012  x")},
    {SLICE(
        "\344\270\255\346\226\207"),
     SLICE(
        "228 184 173 230 150 135"),
     SLICE(
        "228 184 173 230 150 135"),
     SLICE(
        "\344\270\255\346\226\207")},
    {SLICE(
        "\000\357\277\275"),
     SLICE(
        "0 239 191 189"),
     SLICE(
        "0 239 191 189"),
     SLICE(
        "\000\357\277\275")},
    {SLICE(
        "'\305\277"),
     SLICE(
        "39 197 191"),
     SLICE(
        "39 197 191"),
     SLICE(
        "'\305\277")},
    {SLICE(
        ""),
     SLICE(
        ""),
     SLICE(
        ""),
     SLICE(
        "")},
};

static const char byte_fallback_json[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens"
    "\":[{\"id\":1,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":2,\"conte"
    "nt\":\"</s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"n"
    "ormalized\":false,\"special\":true}],\"normalizer\":{\"type\":\"Sequence"
    "\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},{\"typ"
    "e\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}]}"
    ",\"pre_tokenizer\":null,\"post_processor\":{\"type\":\"TemplateProcessing"
    "\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Seque"
    "nce\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A"
    "\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}],\"special"
    "_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}},\""
    "decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pa"
    "ttern\":{\"String\":\"\\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallb"
    "ack\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start"
    "\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_tok"
    "en\":\"<unk>\",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":"
    "null,\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"<s"
    ">\":1,\"</s>\":2,\"<0x00>\":3,\"<0x01>\":4,\"<0x02>\":5,\"<0x03>\":6,\"<0"
    "x04>\":7,\"<0x05>\":8,\"<0x06>\":9,\"<0x07>\":10,\"<0x08>\":11,\"<0x09>\""
    ":12,\"<0x0A>\":13,\"<0x0B>\":14,\"<0x0C>\":15,\"<0x0D>\":16,\"<0x0E>\":17"
    ",\"<0x0F>\":18,\"<0x10>\":19,\"<0x11>\":20,\"<0x12>\":21,\"<0x13>\":22,\""
    "<0x14>\":23,\"<0x15>\":24,\"<0x16>\":25,\"<0x17>\":26,\"<0x18>\":27,\"<0x"
    "19>\":28,\"<0x1A>\":29,\"<0x1B>\":30,\"<0x1C>\":31,\"<0x1D>\":32,\"<0x1E>"
    "\":33,\"<0x1F>\":34,\"<0x20>\":35,\"<0x21>\":36,\"<0x22>\":37,\"<0x23>\":"
    "38,\"<0x24>\":39,\"<0x25>\":40,\"<0x26>\":41,\"<0x27>\":42,\"<0x28>\":43,"
    "\"<0x29>\":44,\"<0x2A>\":45,\"<0x2B>\":46,\"<0x2C>\":47,\"<0x2D>\":48,\"<"
    "0x2E>\":49,\"<0x2F>\":50,\"<0x30>\":51,\"<0x31>\":52,\"<0x32>\":53,\"<0x3"
    "3>\":54,\"<0x34>\":55,\"<0x35>\":56,\"<0x36>\":57,\"<0x37>\":58,\"<0x38>"
    "\":59,\"<0x39>\":60,\"<0x3A>\":61,\"<0x3B>\":62,\"<0x3C>\":63,\"<0x3D>\":"
    "64,\"<0x3E>\":65,\"<0x3F>\":66,\"<0x40>\":67,\"<0x41>\":68,\"<0x42>\":69,"
    "\"<0x43>\":70,\"<0x44>\":71,\"<0x45>\":72,\"<0x46>\":73,\"<0x47>\":74,\"<"
    "0x48>\":75,\"<0x49>\":76,\"<0x4A>\":77,\"<0x4B>\":78,\"<0x4C>\":79,\"<0x4"
    "D>\":80,\"<0x4E>\":81,\"<0x4F>\":82,\"<0x50>\":83,\"<0x51>\":84,\"<0x52>"
    "\":85,\"<0x53>\":86,\"<0x54>\":87,\"<0x55>\":88,\"<0x56>\":89,\"<0x57>\":"
    "90,\"<0x58>\":91,\"<0x59>\":92,\"<0x5A>\":93,\"<0x5B>\":94,\"<0x5C>\":95,"
    "\"<0x5D>\":96,\"<0x5E>\":97,\"<0x5F>\":98,\"<0x60>\":99,\"<0x61>\":100,\""
    "<0x62>\":101,\"<0x63>\":102,\"<0x64>\":103,\"<0x65>\":104,\"<0x66>\":105,"
    "\"<0x67>\":106,\"<0x68>\":107,\"<0x69>\":108,\"<0x6A>\":109,\"<0x6B>\":11"
    "0,\"<0x6C>\":111,\"<0x6D>\":112,\"<0x6E>\":113,\"<0x6F>\":114,\"<0x70>\":"
    "115,\"<0x71>\":116,\"<0x72>\":117,\"<0x73>\":118,\"<0x74>\":119,\"<0x75>"
    "\":120,\"<0x76>\":121,\"<0x77>\":122,\"<0x78>\":123,\"<0x79>\":124,\"<0x7"
    "A>\":125,\"<0x7B>\":126,\"<0x7C>\":127,\"<0x7D>\":128,\"<0x7E>\":129,\"<0"
    "x7F>\":130,\"<0x80>\":131,\"<0x81>\":132,\"<0x82>\":133,\"<0x83>\":134,\""
    "<0x84>\":135,\"<0x85>\":136,\"<0x86>\":137,\"<0x87>\":138,\"<0x88>\":139,"
    "\"<0x89>\":140,\"<0x8A>\":141,\"<0x8B>\":142,\"<0x8C>\":143,\"<0x8D>\":14"
    "4,\"<0x8E>\":145,\"<0x8F>\":146,\"<0x90>\":147,\"<0x91>\":148,\"<0x92>\":"
    "149,\"<0x93>\":150,\"<0x94>\":151,\"<0x95>\":152,\"<0x96>\":153,\"<0x97>"
    "\":154,\"<0x98>\":155,\"<0x99>\":156,\"<0x9A>\":157,\"<0x9B>\":158,\"<0x9"
    "C>\":159,\"<0x9D>\":160,\"<0x9E>\":161,\"<0x9F>\":162,\"<0xA0>\":163,\"<0"
    "xA1>\":164,\"<0xA2>\":165,\"<0xA3>\":166,\"<0xA4>\":167,\"<0xA5>\":168,\""
    "<0xA6>\":169,\"<0xA7>\":170,\"<0xA8>\":171,\"<0xA9>\":172,\"<0xAA>\":173,"
    "\"<0xAB>\":174,\"<0xAC>\":175,\"<0xAD>\":176,\"<0xAE>\":177,\"<0xAF>\":17"
    "8,\"<0xB0>\":179,\"<0xB1>\":180,\"<0xB2>\":181,\"<0xB3>\":182,\"<0xB4>\":"
    "183,\"<0xB5>\":184,\"<0xB6>\":185,\"<0xB7>\":186,\"<0xB8>\":187,\"<0xB9>"
    "\":188,\"<0xBA>\":189,\"<0xBB>\":190,\"<0xBC>\":191,\"<0xBD>\":192,\"<0xB"
    "E>\":193,\"<0xBF>\":194,\"<0xC0>\":195,\"<0xC1>\":196,\"<0xC2>\":197,\"<0"
    "xC3>\":198,\"<0xC4>\":199,\"<0xC5>\":200,\"<0xC6>\":201,\"<0xC7>\":202,\""
    "<0xC8>\":203,\"<0xC9>\":204,\"<0xCA>\":205,\"<0xCB>\":206,\"<0xCC>\":207,"
    "\"<0xCD>\":208,\"<0xCE>\":209,\"<0xCF>\":210,\"<0xD0>\":211,\"<0xD1>\":21"
    "2,\"<0xD2>\":213,\"<0xD3>\":214,\"<0xD4>\":215,\"<0xD5>\":216,\"<0xD6>\":"
    "217,\"<0xD7>\":218,\"<0xD8>\":219,\"<0xD9>\":220,\"<0xDA>\":221,\"<0xDB>"
    "\":222,\"<0xDC>\":223,\"<0xDD>\":224,\"<0xDE>\":225,\"<0xDF>\":226,\"<0xE"
    "0>\":227,\"<0xE1>\":228,\"<0xE2>\":229,\"<0xE3>\":230,\"<0xE4>\":231,\"<0"
    "xE5>\":232,\"<0xE6>\":233,\"<0xE7>\":234,\"<0xE8>\":235,\"<0xE9>\":236,\""
    "<0xEA>\":237,\"<0xEB>\":238,\"<0xEC>\":239,\"<0xED>\":240,\"<0xEE>\":241,"
    "\"<0xEF>\":242,\"<0xF0>\":243,\"<0xF1>\":244,\"<0xF2>\":245,\"<0xF3>\":24"
    "6,\"<0xF4>\":247,\"<0xF5>\":248,\"<0xF6>\":249,\"<0xF7>\":250,\"<0xF8>\":"
    "251,\"<0xF9>\":252,\"<0xFA>\":253,\"<0xFB>\":254,\"<0xFC>\":255,\"<0xFD>"
    "\":256,\"<0xFE>\":257,\"<0xFF>\":258,\"\\u2581\":259,\"h\":260,\"e\":261,"
    "\"l\":262,\"o\":263,\"w\":264,\"r\":265,\"d\":266,\"\\u2581h\":267,\"ll\""
    ":268,\"\\u2581he\":269,\"\\u2581hell\":270,\"\\u2581hello\":271,\"\\u2581"
    "\\u2581\":272,\"o\\u2581\":273},\"merges\":[\"\\u2581 h\",\"l l\",\"\\u25"
    "81h e\",\"\\u2581he ll\",\"\\u2581hell o\",\"\\u2581 \\u2581\",\"o \\u258"
    "1\"]}}";

static const struct vector byte_fallback_vectors[] = {
    {SLICE(
        "hello world"),
     SLICE(
        "1 271 259 264 263 265 262 266"),
     SLICE(
        "271 259 264 263 265 262 266"),
     SLICE(
        "hello world")},
    {SLICE(
        "hello  hello"),
     SLICE(
        "1 271 259 271"),
     SLICE(
        "271 259 271"),
     SLICE(
        "hello  hello")},
    {SLICE(
        "\303\251\344\270\255"),
     SLICE(
        "1 259 198 172 231 187 176"),
     SLICE(
        "259 198 172 231 187 176"),
     SLICE(
        "\303\251\344\270\255")},
    {SLICE(
        "<s>hello</s> he"),
     SLICE(
        "1 1 271 2 259 269"),
     SLICE(
        "1 271 2 259 269"),
     SLICE(
        "hello  he")},
    {SLICE(
        ""),
     SLICE(
        "1"),
     SLICE(
        ""),
     SLICE(
        "")},
    {SLICE(
        " "),
     SLICE(
        "1 272"),
     SLICE(
        "272"),
     SLICE(
        " ")},
    {SLICE(
        "xelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxell"
        "oxelloxelloxelloxelloxelloxello"),
     SLICE(
        "1 259 123 261 268 263 123 261 268 263 123 261 268 263 123 261 268 263"
        " 123 261 268 263 123 261 268 263 123 261 268 263 123 261 268 263 123 "
        "261 268 263 123 261 268 263 123 261 268 263 123 261 268 263 123 261 2"
        "68 263 123 261 268 263 123 261 268 263 123 261 268 263 123 261 268 26"
        "3 123 261 268 263 123 261 268 263 123 261 268 263"),
     SLICE(
        "259 123 261 268 263 123 261 268 263 123 261 268 263 123 261 268 263 1"
        "23 261 268 263 123 261 268 263 123 261 268 263 123 261 268 263 123 26"
        "1 268 263 123 261 268 263 123 261 268 263 123 261 268 263 123 261 268"
        " 263 123 261 268 263 123 261 268 263 123 261 268 263 123 261 268 263 "
        "123 261 268 263 123 261 268 263 123 261 268 263"),
     SLICE(
        "xelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxelloxell"
        "oxelloxelloxelloxelloxelloxello")},
    {SLICE(
        "o hello o o\342\226\201"),
     SLICE(
        "1 259 263 271 259 273 273"),
     SLICE(
        "259 263 271 259 273 273"),
     SLICE(
        "o hello o o ")},
};

static const char unigram_json[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens"
    "\":[{\"id\":1,\"content\":\"</s>\",\"single_word\":false,\"lstrip\":false"
    ",\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":"
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"L"
    "owercase\"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
    "\"\\u2581\",\"prepend_scheme\":\"first\",\"split\":true},\"post_processor"
    "\":null,\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
    "\"prepend_scheme\":\"first\",\"split\":true},\"model\":{\"type\":\"Unigra"
    "m\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],[\"</s>\",0.0],[\"\\u2581\",-"
    "2.0],[\"\\u2581he\",-3.0],[\"llo\",-3.5],[\"l\",-4.0],[\"o\",-4.1],[\"h\""
    ",-4.2],[\"e\",-4.3],[\"\\u2581hello\",-9.0],[\"ll\",-5.0],[\"w\",-6.0],["
    "\"\\u00e9\",-7.0]],\"byte_fallback\":false}}";

static const struct vector unigram_vectors[] = {
    {SLICE(
        "hello HELLO"),
     SLICE(
        "3 4 3 4"),
     SLICE(
        "3 4 3 4"),
     SLICE(
        "hello hello")},
    {SLICE(
        "hello\314\201"),
     SLICE(
        "3 10 0"),
     SLICE(
        "3 10 0"),
     SLICE(
        "hell<unk>")},
    {SLICE(
        "xyz hello"),
     SLICE(
        "2 0 3 4"),
     SLICE(
        "2 0 3 4"),
     SLICE(
        "<unk> hello")},
    {SLICE(
        "\357\274\250\357\274\245llo"),
     SLICE(
        "3 4"),
     SLICE(
        "3 4"),
     SLICE(
        "hello")},
    {SLICE(
        "w </s>w"),
     SLICE(
        "2 11 2 1 11"),
     SLICE(
        "2 11 2 1 11"),
     SLICE(
        "w w")},
    {SLICE(
        " hello"),
     SLICE(
        "3 4"),
     SLICE(
        "3 4"),
     SLICE(
        "hello")},
    {SLICE(
        "\303\251\303\251x"),
     SLICE(
        "2 12 12 0"),
     SLICE(
        "2 12 12 0"),
     SLICE(
        "\303\251\303\251<unk>")},
};

static const char unigram_ties_json[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens"
    "\":[],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\""
    "NFKD\"},{\"type\":\"StripAccents\"}]},\"pre_tokenizer\":{\"type\":\"Metas"
    "pace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\",\"split\""
    ":true},\"post_processor\":null,\"decoder\":{\"type\":\"Metaspace\",\"repl"
    "acement\":\"\\u2581\",\"prepend_scheme\":\"first\",\"split\":true},\"mode"
    "l\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],[\"\\u2"
    "581\",-2.0],[\"xy\",-11.389223822355513],[\"x\",-11.389223822355511],[\"y"
    "\",0.0],[\"\\u0e32\",-3.0]],\"byte_fallback\":false}}";

static const struct vector unigram_ties_vectors[] = {
    {SLICE(
        "xy"),
     SLICE(
        "1 2"),
     SLICE(
        "1 2"),
     SLICE(
        "xy")},
    {SLICE(
        "\340\270\263"),
     SLICE(
        "1 5"),
     SLICE(
        "1 5"),
     SLICE(
        "\340\270\262")},
    {SLICE(
        "\340\271\215\340\270\262"),
     SLICE(
        "5"),
     SLICE(
        "5"),
     SLICE(
        "\340\270\262")},
    {SLICE(
        "\314\201\340\270\263"),
     SLICE(
        "5"),
     SLICE(
        "5"),
     SLICE(
        "\340\270\262")},
};

static const char taken_json[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens"
    "\":[{\"id\":2,\"content\":\"<r>\",\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":true,\"normalized\":false,\"special\":false},{\"id\":3,\"conte"
    "nt\":\"\\n\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,\"nor"
    "malized\":false,\"special\":false},{\"id\":4,\"content\":\"Q\",\"single_w"
    "ord\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":true,\"speci"
    "al\":false},{\"id\":5,\"content\":\"q\",\"single_word\":false,\"lstrip\":"
    "false,\"rstrip\":false,\"normalized\":true,\"special\":true},{\"id\":6,\""
    "content\":\"  \",\"single_word\":false,\"lstrip\":true,\"rstrip\":true,\""
    "normalized\":false,\"special\":false}],\"normalizer\":{\"type\":\"Sequenc"
    "e\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"*\"}"
    ",\"content\":\"\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"~+\"},"
    "\"content\":\"\"},{\"type\":\"BertNormalizer\",\"clean_text\":true,\"hand"
    "le_chinese_chars\":false,\"strip_accents\":true,\"lowercase\":true}]},\"p"
    "re_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Spli"
    "t\",\"pattern\":{\"Regex\":\"\\\\w\\\\u00df\"},\"behavior\":\"Removed\","
    "\"invert\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"z{2}\077y"
    "\"},\"behavior\":\"Removed\",\"invert\":false},{\"type\":\"Split\",\"patt"
    "ern\":{\"Regex\":\"[\\\\w]\\\\u00e6\"},\"behavior\":\"Removed\",\"invert"
    "\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{Han}\"},\"be"
    "havior\":\"Removed\",\"invert\":false},{\"type\":\"Metaspace\",\"replacem"
    "ent\":\"\\u2581\",\"prepend_scheme\":\"first\",\"split\":false}]},\"post_"
    "processor\":null,\"decoder\":null,\"model\":{\"type\":\"BPE\",\"dropout\""
    ":null,\"unk_token\":\"<unk>\",\"continuing_subword_prefix\":null,\"end_of"
    "_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":"
    "{\"<unk>\":0,\"\\u2581\":1,\"a\":2,\"b\":3,\"\\u00df\":4,\"\\u00e6\":5,\""
    "\\u00b2\":6,\"z\":7,\"y\":8,\"*\":9,\"~\":10,\"w\":11,\"\\n\":12,\"\\u030"
    "1\":13,\"\\ud86d\\udf39\":14,\"\\ud86d\\udf38\":15},\"merges\":[]}}";

static const struct vector taken_vectors[] = {
    {SLICE(
        "<r>\012"),
     SLICE(
        "16"),
     SLICE(
        "16"),
     SLICE(
        "<r>")},
    {SLICE(
        "<r> \012a\012"),
     SLICE(
        "16 2 12"),
     SLICE(
        "16 2 12"),
     SLICE(
        "<r> a \012")},
    {SLICE(
        "    a    "),
     SLICE(
        "19 2 19"),
     SLICE(
        "19 2 19"),
     SLICE(
        "   a   ")},
    {SLICE(
        "a\012\012"),
     SLICE(
        "1 2 12 12"),
     SLICE(
        "1 2 12 12"),
     SLICE(
        "\342\226\201 a \012 \012")},
    {SLICE(
        "Qq"),
     SLICE(
        "18 18"),
     SLICE(
        "18 18"),
     SLICE(
        "")},
    {SLICE(
        "\302\262\303\237\302\262\303\246a\303\237"),
     SLICE(
        "6 5"),
     SLICE(
        "6 5"),
     SLICE(
        "\302\262 \303\246")},
    {SLICE(
        "zzyzyayz"),
     SLICE(
        "7 2 7"),
     SLICE(
        "7 2 7"),
     SLICE(
        "z a z")},
    {SLICE(
        "*a"),
     SLICE(
        "2"),
     SLICE(
        "2"),
     SLICE(
        "a")},
    {SLICE(
        "a*"),
     SLICE(
        "1 2"),
     SLICE(
        "1 2"),
     SLICE(
        "\342\226\201 a")},
    {SLICE(
        "~~a"),
     SLICE(
        "2"),
     SLICE(
        "2"),
     SLICE(
        "a")},
    {SLICE(
        "\000a"),
     SLICE(
        "2"),
     SLICE(
        "2"),
     SLICE(
        "a")},
    {SLICE(
        "\314\201a"),
     SLICE(
        "2"),
     SLICE(
        "2"),
     SLICE(
        "a")},
    {SLICE(
        "\360\253\234\271a\360\253\234\270"),
     SLICE(
        "2"),
     SLICE(
        "2"),
     SLICE(
        "a")},
};

static const char wordpiece_json[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens"
    "\":[{\"id\":2,\"content\":\"[CLS]\",\"single_word\":false,\"lstrip\":fals"
    "e,\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":3,\"con"
    "tent\":\"[SEP]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true}],\"normalizer\":{\"type\":\"BertNo"
    "rmalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_acce"
    "nts\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreToken"
    "izer\"},\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]"
    "\",3],\"cls\":[\"[CLS]\",2]},\"decoder\":{\"type\":\"WordPiece\",\"prefix"
    "\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token"
    "\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_w"
    "ord\":12,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"he"
    "\":4,\"##llo\":5,\"##l\":6,\"hell\":7,\"##o\":8,\"wor\":9,\"##ld\":10,\"!"
    "\":11,\",\":12,\"\\u4e2d\":13,\"cafe\":14,\"a\":15,\"##b\":16}}}";

static const struct vector wordpiece_vectors[] = {
    {SLICE(
        "Hello, WORLD!"),
     SLICE(
        "2 7 8 12 9 10 11 3"),
     SLICE(
        "7 8 12 9 10 11"),
     SLICE(
        "hello, world!")},
    {SLICE(
        "hell o"),
     SLICE(
        "2 7 1 3"),
     SLICE(
        "7 1"),
     SLICE(
        "hell [UNK]")},
    {SLICE(
        "caf\303\251\344\270\255hello"),
     SLICE(
        "2 14 13 7 8 3"),
     SLICE(
        "14 13 7 8"),
     SLICE(
        "cafe \344\270\255 hello")},
    {SLICE(
        "aaaaaaaaaaaaaaaaaaaa ab"),
     SLICE(
        "2 1 15 16 3"),
     SLICE(
        "1 15 16"),
     SLICE(
        "[UNK] ab")},
    {SLICE(
        "a\302\255b\011ab"),
     SLICE(
        "2 15 16 15 16 3"),
     SLICE(
        "15 16 15 16"),
     SLICE(
        "ab ab")},
    {SLICE(
        "[SEP] hello"),
     SLICE(
        "2 3 7 8 3"),
     SLICE(
        "3 7 8"),
     SLICE(
        "hello")},
    {SLICE(
        "xyz"),
     SLICE(
        "2 1 3"),
     SLICE(
        "1"),
     SLICE(
        "[UNK]")},
    {SLICE(
        ""),
     SLICE(
        "2 3"),
     SLICE(
        ""),
     SLICE(
        "")},
};

/* clang-format on */

#endif
