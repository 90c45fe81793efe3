/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The links of this process: the UDP link at the bottom, and upon it what the
 * settings ask for. What they did is told on standard error at the end, unasked: who
 * has faults made wants to know whether there were any.
 */
#include "node/node_private.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "link/fault.h"
#include "link/udp.h"

#define REPORT_SIZE 4096u

static_assert(NODE_ERROR_SIZE >= UDP_ERROR_LEN, "links write their sentences there");
static_assert(NODE_ERROR_SIZE >= FAULT_ERROR_SIZE + 32, "and the name of the setting goes before");

static struct udp_config udp_config_of(const struct settings *s)
{
    return (struct udp_config){
        .no_gso = !s->gso,
        .no_gro = !s->gro,
        .no_bpf = !s->bpf,
        .no_guests = !s->guests,
        .send_sockets = (uint32_t)s->send_sockets,
        .receive_buffer = s->receive_buffer == SETTING_AUTO ? 0 : (uint32_t)s->receive_buffer,
    };
}

/* Wraps the link if faults are asked for. */
static int wrap_in_faults(struct node *n, const struct settings *s, char error[NODE_ERROR_SIZE])
{
    struct fault_plan plan;
    struct fault_config config = {.plan = &plan, .now = node_now};
    char sentence[FAULT_ERROR_SIZE];
    uint32_t drawn = 0;
    int result;

    if (s->fault[0] == '\0')
        return 0;
    result = fault_plan_parse(s->fault, &plan, sentence);
    if (result != 0) {
        snprintf(error, NODE_ERROR_SIZE, "UROCE_FAULT: %s", sentence);
        return result;
    }
    if (!plan.has_seed && getrandom(&drawn, sizeof(drawn), 0) < 0)
        return -errno;
    config.seed = plan.has_seed ? plan.seed : drawn;
    result = fault_link_open(&config, n->udp, &n->link);
    n->fault_seed = config.seed;
    n->faults = result == 0;
    return result;
}

int links_open(struct node *n, const struct settings *s, uint8_t *slot, char error[NODE_ERROR_SIZE])
{
    const struct udp_config config = udp_config_of(s);
    int result = udp_link_open(&config, &n->udp, slot, error);

    n->faults = false;
    if (result != 0)
        return result;
    n->link = n->udp;
    error[0] = '\0';
    result = wrap_in_faults(n, s, error);
    if (result == 0)
        return 0;
    if (error[0] == '\0')
        snprintf(error, NODE_ERROR_SIZE, "cannot start: %s", strerror(-result));
    link_close(n->udp);
    n->link = NULL;
    return result;
}

/* One write for all of it, so that the reports of several processes do not mix. */
static void report_faults(const struct node *n)
{
    char text[REPORT_SIZE];
    int len =
        snprintf(text, sizeof(text), "uroce: faults in process %d (%s), seed %llu:\n", (int)n->pid,
                 program_invocation_short_name, (unsigned long long)n->fault_seed);

    fault_link_report(n->link, "uroce:   ", text + len, sizeof(text) - (size_t)len);
    fputs(text, stderr);
}

void links_finish(struct node *n)
{
    if (n->link == NULL)
        return;
    link_finish(n->link);
    if (n->faults)
        report_faults(n);
}
