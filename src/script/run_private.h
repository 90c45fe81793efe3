/* SPDX-License-Identifier: BSD-2-Clause */
/* A script on its way, shared by what makes packets, what compares them and what leads through. */
#ifndef UROCE_SCRIPT_RUN_PRIVATE_H
#define UROCE_SCRIPT_RUN_PRIVATE_H

#include <stdio.h>

#include "script/grammar_private.h"
#include "script/subject.h"

#define LADDER_LINES_MAX 512u
#define LADDER_LINE_SIZE 160u
#define VALUE_TEXT_SIZE 80u

struct run {
    const struct script *script;
    struct subject *subject;
    FILE *out; /* never NULL */
    uint64_t values[SCRIPT_VARIABLES_MAX];
    struct setup setup;
    struct offer offer;
    uint64_t start_ns;
    uint64_t base_ns; /* what "after" and "within" count from: the last thing that was */
    uint8_t *scratch; /* SCRIPT_REGION_LEN_MAX bytes twice: expected, and what came */
    uint32_t ladder_count;
    char (*ladder)[LADDER_LINE_SIZE];
};

/* The names that every script has, in the order of script_parse. */
enum known_variable { VARIABLE_QPN, VARIABLE_PEER_QPN, VARIABLE_RPSN, VARIABLE_SPSN, VARIABLE_MTU };

/* Says what is wrong with a line of the script. */
enum script_verdict run_failed(struct run *run, const struct statement *st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* It could not be carried out. */
enum script_verdict run_broken(struct run *run, const struct statement *st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a call of the subject says that failed: BROKEN, or SKIPPED where the peer has not what is
 * needed. */
enum script_verdict call_failed(struct run *run, const struct statement *st, int error);

/* The lines that speak of the application. */
enum script_verdict do_post(struct run *run, const struct statement *st);
enum script_verdict do_completion(struct run *run, const struct statement *st);
enum script_verdict do_no(struct run *run, const struct statement *st);
enum script_verdict do_event(struct run *run, const struct statement *st);
enum script_verdict do_state(struct run *run, const struct statement *st);
enum script_verdict do_modify(struct run *run, const struct statement *st);
enum script_verdict do_fill(struct run *run, const struct statement *st);
enum script_verdict do_holds(struct run *run, const struct statement *st);
/* Nothing is left there. */
enum script_verdict no_completion(struct run *run, const struct statement *st);
enum script_verdict no_event(struct run *run, const struct statement *st);

/* A line of the ladder. arrow: '<' or '>'. */
void ladder_add(struct run *run, char arrow, const struct wire_packet *p);

uint64_t expression_value(const struct run *run, const struct expression *e);

/* The value of a field, as script_mutate left it. False: it does not fit, which was said. */
bool run_field(struct run *run, const struct statement *st, const struct field *f, uint64_t *out);
/* The same of a row; absent when there is no such field. */
bool run_row(struct run *run, const struct statement *st, enum field_row row, uint64_t absent,
             uint64_t *out);

/* Byte i of message number id. */
uint8_t message_byte(uint32_t id, uint32_t i);

/*
 * The bytes that a line speaks of, data=, bytes=, u64= or zero, into out, which has room for max.
 * *said: they were said, not only how many. False: that was said.
 */
bool statement_bytes(struct run *run, const struct statement *st, uint8_t *out, uint32_t max,
                     uint32_t *len, bool *said);

/* Builds the packet of an inject line. False: that was said. */
bool packet_make(struct run *run, const struct statement *st, struct wire_packet *out);

/* Whether a packet is what an expect line says; if not, says how they differ.
 * Takes values into names when it is. */
enum script_verdict packet_match(struct run *run, const struct statement *st,
                                 const struct wire_packet *p);

/* Whether it is an ACK before the one that an expect line says, which may come (coalesced). */
bool packet_is_earlier_ack(struct run *run, const struct statement *st,
                           const struct wire_packet *p);

/* --- a table of what was expected and what came --- */

#define DIFFERENCE_ROWS_MAX 32u

struct difference {
    const char *name;
    char expected[VALUE_TEXT_SIZE];
    char came[VALUE_TEXT_SIZE];
    bool bad;
};

struct differences {
    struct difference rows[DIFFERENCE_ROWS_MAX];
    uint32_t count;
    bool bad;
};

struct difference *difference_add(struct differences *d, const char *name, bool bad);
/* A number of the row's kind. */
void difference_number(struct differences *d, enum field_row row, uint64_t expected, uint64_t came);
/* Compares bytes, and says where they begin to differ. */
void difference_bytes(struct differences *d, const char *name, const uint8_t *expected,
                      const uint8_t *came, uint32_t len);
void differences_print(const struct differences *d, FILE *out);
void value_text(enum field_row row, uint64_t value, char out[VALUE_TEXT_SIZE]);

/* As the script would say it: "RC_ACK psn=100 nak=psn msn=0". */
void statement_print(struct run *run, const struct statement *st, FILE *out);

#endif
