/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carries a script out, line by line: a row of the table at the end for each
 * kind of line. What is not as the script says ends it, with what was
 * expected, what came, and all packets until then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/memory.h"
#include "script/run_private.h"
#include "wire/aeth.h"

#define WITHIN_DEFAULT_NS 10000000u
#define TIMEOUT_PATIENT 21u /* 8.6 s */
#define ALL_RIGHTS                                                                                 \
    (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC)

/* --- what is said --- */

/* The line, and what is said of it. */
static void say(struct run *run, const struct statement *st, const char *format, va_list ap)
{
    fprintf(run->out, "%s:%u: ", run->script->path, st != NULL ? st->line : 1);
    vfprintf(run->out, format, ap);
    fputc('\n', run->out);
}

enum script_verdict run_failed(struct run *run, const struct statement *st, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(run, st, format, ap);
    va_end(ap);
    return SCRIPT_FAILED;
}

enum script_verdict run_broken(struct run *run, const struct statement *st, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(run, st, format, ap);
    va_end(ap);
    return SCRIPT_BROKEN;
}

/* What a call of the subject says that failed. */
enum script_verdict call_failed(struct run *run, const struct statement *st, int error)
{
    const char *why = run->subject->error[0] != '\0' ? run->subject->error : strerror(-error);

    run_broken(run, st, "%s: %s", run->subject->name, why);
    return error == -EOPNOTSUPP ? SCRIPT_SKIPPED : SCRIPT_BROKEN;
}

static void packet_text(const struct wire_packet *w, char *out, size_t size)
{
    struct packet p;
    size_t at;

    if (packet_parse(w->bytes, w->len, &p) != DROP_NONE) {
        snprintf(out, size, "%zu bytes, malformed", w->len);
        return;
    }
    at = (size_t)snprintf(out, size, "%-20s psn %u%s%s len %u", opcode_name(p.h.bth.opcode),
                          p.h.bth.psn.value, p.h.bth.ack_req ? " AckReq" : "",
                          p.h.bth.solicited ? " SE" : "", p.payload_len);
    if (at < size && (p.operation->headers & HEADER_AETH) != 0)
        at += (size_t)snprintf(out + at, size - at, " %s %u msn %u", aeth_name(p.h.aeth.syndrome),
                               aeth_value(p.h.aeth.syndrome), p.h.aeth.msn.value);
    if (at < size && (p.operation->headers & HEADER_RETH) != 0)
        snprintf(out + at, size - at, " va 0x%" PRIx64 " rkey 0x%x dmalen %u", p.h.reth.va,
                 p.h.reth.rkey, p.h.reth.dma_len);
}

void ladder_add(struct run *run, char arrow, const struct wire_packet *p)
{
    char text[LADDER_LINE_SIZE - 32];

    if (run->ladder_count == LADDER_LINES_MAX)
        return;
    packet_text(p, text, sizeof(text));
    snprintf(run->ladder[run->ladder_count++], LADDER_LINE_SIZE, "%12.3f ms  %c  %s",
             (double)(p->at_ns - run->start_ns) / 1e6, arrow, text);
}

static void ladder_print(const struct run *run)
{
    if (run->ladder_count > 0)
        fputs("    what travelled (< to the peer under test, > from it):\n", run->out);
    for (uint32_t i = 0; i < run->ladder_count; i++)
        fprintf(run->out, "    %s\n", run->ladder[i]);
}

/* --- what is set up --- */

static const struct setup setup_default = {
    .service = SERVICE_RC,
    .attr = {.pmtu = 256,
             .qkey = 0x11111111,
             .access = ALL_RIGHTS,
             .rd_atomic = 4,
             .dest_rd_atomic = 4,
             .min_rnr_timer = 12, /* 640 us */
             .timeout = 14,       /* 67 ms */
             .retry_count = 3,
             .rnr_retry = 3,
             .dest_qpn = SUBJECT_PEER_QPN},
    .send_wr_max = 16,
    .recv_wr_max = 16,
};

static bool setup_qp(struct run *run, const struct statement *st)
{
    struct qp_attr *a = &run->setup.attr;
    uint64_t v[14];
    const bool good = run_row(run, st, FIELD_MTU, a->pmtu, &v[0]) &&
                      run_row(run, st, FIELD_RQ_PSN, a->rq_psn.value, &v[1]) &&
                      run_row(run, st, FIELD_SQ_PSN, a->sq_psn.value, &v[2]) &&
                      run_row(run, st, FIELD_QP_QKEY, a->qkey, &v[3]) &&
                      run_row(run, st, FIELD_ACCESS, a->access, &v[4]) &&
                      run_row(run, st, FIELD_TIMEOUT, a->timeout, &v[5]) &&
                      run_row(run, st, FIELD_RETRY, a->retry_count, &v[6]) &&
                      run_row(run, st, FIELD_RNR_RETRY, a->rnr_retry, &v[7]) &&
                      run_row(run, st, FIELD_MIN_RNR, a->min_rnr_timer, &v[8]) &&
                      run_row(run, st, FIELD_RD_ATOMIC, a->rd_atomic, &v[9]) &&
                      run_row(run, st, FIELD_DEST_RD_ATOMIC, a->dest_rd_atomic, &v[10]) &&
                      run_row(run, st, FIELD_SQ_SIZE, run->setup.send_wr_max, &v[11]) &&
                      run_row(run, st, FIELD_RQ_SIZE, run->setup.recv_wr_max, &v[12]);

    if (!good)
        return false;
    a->pmtu = (uint32_t)v[0];
    a->rq_psn = psn_make((uint32_t)v[1]);
    a->sq_psn = psn_make((uint32_t)v[2]);
    a->qkey = (uint32_t)v[3];
    a->access = (uint32_t)v[4];
    a->timeout = (uint8_t)v[5];
    a->retry_count = (uint8_t)v[6];
    a->rnr_retry = (uint8_t)v[7];
    a->min_rnr_timer = (uint8_t)v[8];
    a->rd_atomic = (uint8_t)v[9];
    a->dest_rd_atomic = (uint8_t)v[10];
    run->setup.send_wr_max = (uint32_t)v[11];
    run->setup.recv_wr_max = (uint32_t)v[12];
    run->setup.service = (enum service)st->what;
    run->setup.with_srq = field_find(st, FIELD_SRQ) != NULL;
    return true;
}

static bool setup_memory(struct run *run, const struct statement *st)
{
    struct setup_region *r = &run->setup.regions[run->setup.region_count];
    uint64_t size;
    uint64_t access;

    if (!run_row(run, st, FIELD_SIZE, 0, &size) ||
        !run_row(run, st, FIELD_ACCESS, ALL_RIGHTS, &access))
        return false;
    *r = (struct setup_region){.len = (uint32_t)size,
                               .access = (uint32_t)access,
                               .foreign = field_find(st, FIELD_FOREIGN) != NULL};
    run->setup.region_count++;
    return true;
}

/* All lines that set up, then the peer's answer into the names. */
static enum script_verdict open_subject(struct run *run, uint32_t psn)
{
    const struct script *s = run->script;
    int error;

    run->setup = setup_default;
    if (run->subject->patience_ns > 0) /* while nothing is waited for, nothing is to be repeated */
        run->setup.attr.timeout = TIMEOUT_PATIENT;
    run->setup.attr.rq_psn = psn_make(psn);
    run->setup.attr.sq_psn = psn_make(psn);
    for (uint32_t i = 0; i < s->statement_count; i++) {
        const struct statement *st = &s->statements[i];

        if ((st->kind == STATEMENT_QP && !setup_qp(run, st)) ||
            (st->kind == STATEMENT_MEMORY && !setup_memory(run, st)))
            return SCRIPT_BROKEN;
    }
    run->setup.window_count = s->window_count;
    error = run->subject->ops->open(run->subject, &run->setup, &run->offer);
    if (error != 0)
        return call_failed(run, NULL, error);
    run->values[VARIABLE_QPN] = run->offer.qpn;
    run->values[VARIABLE_PEER_QPN] = run->subject->peer_qpn;
    run->values[VARIABLE_RPSN] = run->setup.attr.rq_psn.value;
    run->values[VARIABLE_SPSN] = run->setup.attr.sq_psn.value;
    run->values[VARIABLE_MTU] = run->setup.attr.pmtu;
    for (uint32_t i = 0; i < s->statement_count; i++) {
        const struct statement *st = &s->statements[i];

        if (st->kind == STATEMENT_MEMORY) {
            run->values[st->what] = run->offer.regions[st->index].va;
            run->values[st->what + 1] = run->offer.regions[st->index].rkey;
        } else if (st->kind == STATEMENT_WINDOW) {
            run->values[st->what + 1] = run->offer.window_rkeys[st->index];
        }
    }
    run->start_ns = run->subject->ops->now(run->subject);
    run->base_ns = run->start_ns;
    return SCRIPT_PASSED;
}

/* --- the wire --- */

static enum script_verdict do_inject(struct run *run, const struct statement *st)
{
    struct wire_packet p;
    int error;

    if (!packet_make(run, st, &p))
        return SCRIPT_BROKEN;
    error = run->subject->ops->send(run->subject, &p);
    if (error != 0)
        return call_failed(run, st, error);
    if (p.at_ns > run->base_ns)
        run->base_ns = p.at_ns;
    ladder_add(run, '<', &p);
    return SCRIPT_PASSED;
}

/* The next packet until a time: PASSED with *out, FAILED when there is none, or BROKEN. */
static enum script_verdict next_packet(struct run *run, const struct statement *st, uint64_t until,
                                       struct wire_packet *out)
{
    int result = run->subject->ops->receive(run->subject, until, out);

    if (result < 0)
        return call_failed(run, st, result);
    if (result == 0)
        return SCRIPT_FAILED;
    ladder_add(run, '>', out);
    return SCRIPT_PASSED;
}

static enum script_verdict do_expect(struct run *run, const struct statement *st)
{
    const uint64_t within = st->timed ? st->within_ns : st->after_ns + WITHIN_DEFAULT_NS;
    const uint64_t until =
        run->base_ns + within +
        (field_find(st, FIELD_MAYBE) != NULL ? run->subject->settle_ns : run->subject->patience_ns);
    struct wire_packet p;
    enum script_verdict v;
    uint64_t least;

    do {
        v = next_packet(run, st, until, &p);
    } while (v == SCRIPT_PASSED && packet_is_earlier_ack(run, st, &p));
    if (v == SCRIPT_FAILED && field_find(st, FIELD_MAYBE) != NULL)
        return SCRIPT_PASSED;
    if (v == SCRIPT_FAILED) {
        run_failed(run, st, "nothing came in %g ms", (double)(until - run->base_ns) / 1e6);
        fputs("      expected: ", run->out);
        statement_print(run, st, run->out);
        fputc('\n', run->out);
    }
    if (v != SCRIPT_PASSED)
        return v;
    v = packet_match(run, st, &p);
    if (v != SCRIPT_PASSED)
        return v;
    /* Clocks that are not simulated may have been late to see what it counts from. */
    least = run->base_ns + st->after_ns - (run->subject->patience_ns > 0 ? st->after_ns / 10 : 0);
    if (st->after_ns > 0 && p.at_ns < least)
        return run_failed(run, st, "it came after %g ms, expected not before %g ms",
                          (double)(p.at_ns - run->base_ns) / 1e6, (double)st->after_ns / 1e6);
    if (p.at_ns > run->base_ns)
        run->base_ns = p.at_ns;
    return SCRIPT_PASSED;
}

static enum script_verdict unexpected(struct run *run, const struct statement *st,
                                      const struct wire_packet *p, const char *when)
{
    char text[LADDER_LINE_SIZE];

    packet_text(p, text, sizeof(text));
    run_failed(run, st, "a packet came that nobody expected%s", when);
    fprintf(run->out, "      came: %s\n", text);
    return SCRIPT_FAILED;
}

static enum script_verdict do_silence(struct run *run, const struct statement *st)
{
    const uint64_t until = run->base_ns + st->within_ns;
    struct wire_packet p;
    enum script_verdict v = next_packet(run, st, until, &p);

    if (v == SCRIPT_PASSED)
        return unexpected(run, st, &p, "");
    run->base_ns = until;
    return v == SCRIPT_FAILED ? SCRIPT_PASSED : v;
}

/* Time passes; what comes meanwhile waits for its line. */
static enum script_verdict do_after(struct run *run, const struct statement *st)
{
    int error = run->subject->ops->wait(run->subject, run->base_ns + st->within_ns);

    run->base_ns += st->within_ns;
    return error != 0 ? call_failed(run, st, error) : SCRIPT_PASSED;
}

/* --- the whole --- */

static enum script_verdict do_let(struct run *run, const struct statement *st)
{
    run->values[st->index] = expression_value(run, &st->where);
    return SCRIPT_PASSED;
}

static enum script_verdict do_nothing(struct run *run, const struct statement *st)
{
    (void)run;
    (void)st;
    return SCRIPT_PASSED;
}

static enum script_verdict (*const actions[])(struct run *run, const struct statement *st) = {
    [STATEMENT_QP] = do_nothing,
    [STATEMENT_MEMORY] = do_nothing,
    [STATEMENT_WINDOW] = do_nothing,
    [STATEMENT_INJECT] = do_inject,
    [STATEMENT_EXPECT] = do_expect,
    [STATEMENT_SILENCE] = do_silence,
    [STATEMENT_AFTER] = do_after,
    [STATEMENT_POST] = do_post,
    [STATEMENT_COMPLETION] = do_completion,
    [STATEMENT_NO] = do_no,
    [STATEMENT_EVENT] = do_event,
    [STATEMENT_STATE] = do_state,
    [STATEMENT_MODIFY] = do_modify,
    [STATEMENT_FILL] = do_fill,
    [STATEMENT_HOLDS] = do_holds,
    [STATEMENT_LET] = do_let,
};

/* Nothing is left that no line spoke of. */
static enum script_verdict check_rest(struct run *run, const struct statement *last)
{
    struct wire_packet p;
    enum script_verdict v = next_packet(run, last, run->base_ns + run->subject->settle_ns, &p);

    if (v == SCRIPT_PASSED)
        return unexpected(run, last, &p, " at the end of the script");
    if (v != SCRIPT_FAILED)
        return v;
    v = no_completion(run, last);
    return v == SCRIPT_PASSED ? no_event(run, last) : v;
}

static enum script_verdict run_statements(struct run *run)
{
    const struct script *s = run->script;
    enum script_verdict v = SCRIPT_PASSED;

    for (uint32_t i = 0; i < s->statement_count && v == SCRIPT_PASSED; i++)
        v = actions[s->statements[i].kind](run, &s->statements[i]);
    return v == SCRIPT_PASSED ? check_rest(run, &s->statements[s->statement_count - 1]) : v;
}

static enum script_verdict run_with(struct run *run, const struct script_options *options)
{
    enum script_verdict v = open_subject(run, options->psn);

    if (v != SCRIPT_PASSED)
        return v;
    v = run_statements(run);
    run->subject->ops->close(run->subject);
    if (v != SCRIPT_PASSED) {
        for (uint32_t i = 0; i < run->script->rule_count; i++)
            fprintf(run->out, "    rule: %s\n", run->script->rules[i]);
    }
    if (v != SCRIPT_PASSED || options->verbose)
        ladder_print(run);
    return v;
}

enum script_verdict script_run(const struct script *s, struct subject *subject,
                               const struct script_options *options)
{
    struct run run = {.script = s, .subject = subject, .out = options->out};
    enum script_verdict v = SCRIPT_BROKEN;

    if (run.out == NULL)
        run.out = fopen("/dev/null", "w");
    run.scratch = malloc(2 * (size_t)SCRIPT_REGION_LEN_MAX);
    run.ladder = calloc(LADDER_LINES_MAX, sizeof(*run.ladder));
    if (run.out != NULL && run.scratch != NULL && run.ladder != NULL)
        v = run_with(&run, options);
    if (options->out == NULL && run.out != NULL)
        fclose(run.out);
    free(run.ladder);
    free(run.scratch);
    return v;
}
