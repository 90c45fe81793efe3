/* SPDX-License-Identifier: BSD-2-Clause */
/* The error matrix itself; error_matrix.c tries each row, docs/errors.md shows it. */
#include <stdio.h>

#include "error_matrix.h"

const struct operation_row operations[] = {
    {IBV_WR_SEND, "SEND"},
    {IBV_WR_SEND_WITH_IMM, "SEND_IMM"},
    {IBV_WR_SEND_WITH_INV, "SEND_INV"},
    {IBV_WR_RDMA_WRITE, "WRITE"},
    {IBV_WR_RDMA_WRITE_WITH_IMM, "WRITE_IMM"},
    {IBV_WR_RDMA_READ, "READ"},
    {IBV_WR_ATOMIC_CMP_AND_SWP, "CMP_SWAP"},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, "FETCH_ADD"},
    {IBV_WR_ATOMIC_WRITE, "ATOMIC_WRITE"},
};
const unsigned operation_count = COUNT_OF(operations);

/* Words of the table. */
#define OP(opcode) (1u << (opcode))
#define SEND (OP(IBV_WR_SEND) | OP(IBV_WR_SEND_WITH_IMM))
#define INV OP(IBV_WR_SEND_WITH_INV)
#define WRITE (OP(IBV_WR_RDMA_WRITE) | OP(IBV_WR_RDMA_WRITE_WITH_IMM))
#define PLAIN_WRITE OP(IBV_WR_RDMA_WRITE)
#define READ OP(IBV_WR_RDMA_READ)
#define ATOMIC (OP(IBV_WR_ATOMIC_CMP_AND_SWP) | OP(IBV_WR_ATOMIC_FETCH_AND_ADD))
#define ATOMIC_WRITE OP(IBV_WR_ATOMIC_WRITE)
#define REMOTE (WRITE | READ | ATOMIC | ATOMIC_WRITE)
#define ALL (SEND | INV | REMOTE)
#define RC IBV_QPT_RC
#define UC IBV_QPT_UC
#define UD IBV_QPT_UD
#define XRC IBV_QPT_XRC_SEND
#define ACCESS IBV_EVENT_QP_ACCESS_ERR
#define REQ IBV_EVENT_QP_REQ_ERR
#define EST IBV_EVENT_COMM_EST
#define NO EVENT_NONE
#define OK IBV_WC_SUCCESS
#define FLUSHED IBV_WC_WR_FLUSH_ERR
#define STAYS RECEIVE_STAYS
#define W(status) IBV_WC_##status
#define F(fault) FAULT_##fault
#define Q(state) IBV_QPS_##state

/* clang-format off */
const struct row rows[] = {
    /* what is wrong                       fault                     on  with                   request ends as       receive ends as  event   own     peer    reason */
    /* remote keys, ranges and rights */
    {"unknown R_Key",                      F(REMOTE_KEY),            RC, REMOTE,                W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 9.7.5.2.4"},
    {"R_Key of a deregistered region",     F(REMOTE_DEREGISTERED),   RC, REMOTE,                W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6"},
    {"R_Key of another PD",                F(REMOTE_OTHER_PD),       RC, REMOTE,                W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6"},
    {"region without the right",           F(REMOTE_NO_RIGHT),       RC, REMOTE,                W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6"},
    {"past the end of the region",         F(REMOTE_END),            RC, REMOTE,                W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5"},
    {"before the start of the region",     F(REMOTE_START),          RC, REMOTE,                W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5"},
    {"around the end of the address space", F(REMOTE_WRAPS),         RC, REMOTE,                W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5"},
    {"memory of the region is unmapped",   F(REMOTE_MEMORY_GONE),    RC, REMOTE,                W(REM_OP_ERR),        FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.5.2"},
    {"window that is not bound",           F(WINDOW_UNBOUND),        RC, REMOTE,                    W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6.7"},
    {"window that was invalidated",        F(WINDOW_INVALIDATED),    RC, REMOTE,                    W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6.7"},
    {"window of another QP",               F(WINDOW_OTHER_QP),       RC, REMOTE,                    W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6.7"},
    {"past the end of the window",         F(WINDOW_END),            RC, REMOTE,                    W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6.7"},
    {"window without the right",           F(WINDOW_NO_RIGHT),       RC, REMOTE,                    W(REM_ACCESS_ERR),    FLUSHED,         ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, 10.6.7"},
    /* keys that a SEND cannot invalidate: class J, of which no NAK tells */
    {"unknown R_Key",                      F(REMOTE_KEY),            RC, INV,                       W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"R_Key of a deregistered region",     F(REMOTE_DEREGISTERED),   RC, INV,                       W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"R_Key of another PD",                F(REMOTE_OTHER_PD),       RC, INV,                       W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"R_Key of a region",                  F(NONE),                  RC, INV,                       W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"window that is not bound",           F(WINDOW_UNBOUND),        RC, INV,                       W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"window that was invalidated",        F(WINDOW_INVALIDATED),    RC, INV,                       W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"window of another QP",               F(WINDOW_OTHER_QP),       RC, INV,                       W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"window of this QP: no fault",        F(WINDOW_END),            RC, INV,                       OK,                   OK,              NO,     Q(RTS), Q(RTS), "9.4.1"},
    {"no bytes, no key: no fault",         F(NO_REMOTE_KEY_NEEDED),  RC, PLAIN_WRITE | READ,    OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.7.4.1.5"},
    {"unknown R_Key",                      F(REMOTE_KEY),            UC, WRITE,                 OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    {"R_Key of a deregistered region",     F(REMOTE_DEREGISTERED),   UC, WRITE,                 OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    {"R_Key of another PD",                F(REMOTE_OTHER_PD),       UC, WRITE,                 OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    {"region without the right",           F(REMOTE_NO_RIGHT),       UC, WRITE,                 OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    {"past the end of the region",         F(REMOTE_END),            UC, WRITE,                 OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    {"around the end of the address space", F(REMOTE_WRAPS),         UC, WRITE,                 OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    /* what the peer's queue pair does not do */
    {"peer's QP does not allow it",        F(QP_FORBIDS),            RC, REMOTE,                W(REM_INV_REQ_ERR),   FLUSHED,         REQ,    Q(ERR), Q(ERR), "9.7.4.1, 9.7.5.2"},
    {"peer's QP does not allow it",        F(QP_FORBIDS),            UC, WRITE,                 OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    {"address not a multiple of 8",        F(UNALIGNED),             RC, ATOMIC | ATOMIC_WRITE, W(REM_INV_REQ_ERR),   FLUSHED,         REQ,    Q(ERR), Q(ERR), "9.4.5, 9.7.5.2"},
    {"peer answers no READs",              F(NO_READS_THERE),        RC, READ | ATOMIC | ATOMIC_WRITE, W(REM_INV_REQ_ERR), FLUSHED,    REQ,    Q(ERR), Q(ERR), "9.7.4.1, 9.7.5.2"},
    {"own QP asks for no READs",           F(NO_READS_HERE),         RC, READ | ATOMIC | ATOMIC_WRITE, W(LOC_QP_OP_ERR), STAYS,        NO,     Q(ERR), Q(RTS), "11.2, 11.6.2"},
    /* local keys, ranges and lengths */
    {"unknown L_Key",                      F(LOCAL_KEY),             RC, ALL,                   W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 11.6.2"},
    {"L_Key of a deregistered region",     F(LOCAL_DEREGISTERED),    RC, ALL,                   W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 11.6.2"},
    {"L_Key of another PD",                F(LOCAL_OTHER_PD),        RC, ALL,                   W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 10.6"},
    {"past the end of the local region",   F(LOCAL_BOUNDS),          RC, ALL,                   W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 11.6.2"},
    {"answer to memory without local write", F(LOCAL_READ_ONLY),     RC, READ | ATOMIC,         W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 10.6"},
    {"local memory is unmapped",           F(LOCAL_MEMORY_GONE),     RC, ALL,                   W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 11.6.2"},
    {"more than 2^31 bytes",               F(TOO_LONG),              RC, SEND | WRITE | READ,   W(LOC_LEN_ERR),       STAYS,           NO,     Q(ERR), Q(RTS), "9.7, 11.6.2"},
    {"other than 8 bytes",                 F(ATOMIC_LENGTH),         RC, ATOMIC | ATOMIC_WRITE, W(LOC_LEN_ERR),       STAYS,           NO,     Q(ERR), Q(RTS), "9.4.5, 11.6.2"},
    {"unknown L_Key",                      F(LOCAL_KEY),             UC, SEND | WRITE,          W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"L_Key of another PD",                F(LOCAL_OTHER_PD),        UC, SEND | WRITE,          W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"past the end of the local region",   F(LOCAL_BOUNDS),          UC, SEND | WRITE,          W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"local memory is unmapped",           F(LOCAL_MEMORY_GONE),     UC, SEND | WRITE,          W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"unknown L_Key",                      F(LOCAL_KEY),             UD, SEND,                  W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"L_Key of another PD",                F(LOCAL_OTHER_PD),        UD, SEND,                  W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"past the end of the local region",   F(LOCAL_BOUNDS),          UD, SEND,                  W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"local memory is unmapped",           F(LOCAL_MEMORY_GONE),     UD, SEND,                  W(LOC_PROT_ERR),      STAYS,           NO,     Q(SQE), Q(RTS), "9.9.2, 10.3.1"},
    {"longer than a packet",               F(TOO_LONG),              UD, SEND,                  W(LOC_LEN_ERR),       STAYS,           NO,     Q(SQE), Q(RTS), "9.8.3, 11.6.2"},
    /* receive requests */
    {"message longer than its receive",    F(RECEIVE_TOO_SHORT),     RC, SEND,                  W(REM_INV_REQ_ERR),   W(LOC_LEN_ERR),  REQ,    Q(ERR), Q(ERR), "9.7.4.1.6, 9.7.5.2"},
    {"message longer than its receive",    F(RECEIVE_TOO_SHORT),     UC, SEND,                  OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2, 9.9.3"},
    {"message longer than its receive",    F(RECEIVE_TOO_SHORT),     UD, SEND,                  OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.3, 9.9.3"},
    {"message shorter than its receive: no fault", F(NONE),          RC, SEND,                  OK,                   OK,              NO,     Q(RTS), Q(RTS), "9.7.4.1.6"},
    {"message shorter than its receive: no fault", F(NONE),          UC, SEND,                  OK,                   OK,              NO,     Q(RTS), Q(RTS), "9.8.2"},
    {"message shorter than its receive: no fault", F(NONE),          UD, SEND,                  OK,                   OK,              NO,     Q(RTS), Q(RTS), "9.8.3"},
    {"unknown L_Key of the receive",       F(RECEIVE_KEY),           RC, SEND,                  W(REM_OP_ERR),        W(LOC_PROT_ERR), NO,     Q(ERR), Q(ERR), "9.7.5.2, 9.9.3"},
    {"receive to another PD",              F(RECEIVE_OTHER_PD),      RC, SEND,                  W(REM_OP_ERR),        W(LOC_PROT_ERR), NO,     Q(ERR), Q(ERR), "9.7.5.2, 9.9.3"},
    {"receive to memory without local write", F(RECEIVE_READ_ONLY),  RC, SEND,                  W(REM_OP_ERR),        W(LOC_PROT_ERR), NO,     Q(ERR), Q(ERR), "9.7.5.2, 9.9.3"},
    {"memory of the receive is unmapped",  F(RECEIVE_MEMORY_GONE),   RC, SEND,                  W(REM_OP_ERR),        W(LOC_PROT_ERR), NO,     Q(ERR), Q(ERR), "9.7.5.2, 9.9.3"},
    {"unknown L_Key of the receive",       F(RECEIVE_KEY),           UC, SEND,                  OK,                   W(LOC_PROT_ERR), NO,     Q(RTS), Q(ERR), "9.9.3"},
    {"unknown L_Key of the receive",       F(RECEIVE_KEY),           UD, SEND,                  OK,                   W(LOC_PROT_ERR), NO,     Q(RTS), Q(ERR), "9.9.3"},
    {"no receive request",                 F(NO_RECEIVE),            RC, SEND | INV | OP(IBV_WR_RDMA_WRITE_WITH_IMM), W(RNR_RETRY_EXC_ERR), STAYS, NO, Q(ERR), Q(RTS), "9.7.5.2, 9.9.2"},
    {"no receive request",                 F(NO_RECEIVE),            UC, SEND | OP(IBV_WR_RDMA_WRITE_WITH_IMM), OK,   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.2"},
    {"no receive request",                 F(NO_RECEIVE),            UD, SEND,                  OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.3"},
    /* states of the queue pairs */
    {"peer's QP in RESET",                 F(PEER_RESET),            RC, ALL,                   W(RETRY_EXC_ERR),     STAYS,           NO,     Q(ERR), Q(RESET), "9.9.2, 10.3.1"},
    {"peer's QP in INIT",                  F(PEER_INIT),             RC, ALL,                   W(RETRY_EXC_ERR),     STAYS,           NO,     Q(ERR), Q(INIT), "9.9.2, 10.3.1"},
    {"peer's QP in RTR: no fault",         F(PEER_RTR),              RC, SEND,                  OK,                   OK,              EST,    Q(RTS), Q(RTR), "10.3.1, 11.6.3"},
    {"peer's QP in SQD: no fault",         F(PEER_SQD),              RC, SEND,                  OK,                   OK,              NO,     Q(RTS), Q(SQD), "10.3.1"},
    {"peer's QP in SQE: no fault",         F(PEER_SQE),              UC, SEND,                      OK,                   OK,              NO,     Q(RTS), Q(SQE), "10.3.1"},
    {"peer's QP in SQE: no fault",         F(PEER_SQE),              UD, SEND,                      OK,                   OK,              NO,     Q(RTS), Q(SQE), "10.3.1"},
    {"peer's QP in ERR",                   F(PEER_ERR),              RC, ALL,                   W(RETRY_EXC_ERR),     FLUSHED,         NO,     Q(ERR), Q(ERR), "9.9.2, 10.3.1"},
    {"peer's QP destroyed",                F(PEER_GONE),             RC, ALL,                   W(RETRY_EXC_ERR),     STAYS,           NO,     Q(ERR), GONE,   "9.9.2"},
    {"peer's process gone",                F(PEER_DEAD),             RC, ALL,                       W(RETRY_EXC_ERR),     STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2"},
    {"peer's QP in RESET",                 F(PEER_RESET),            UC, SEND | WRITE,          OK,                   STAYS,           NO,     Q(RTS), Q(RESET), "9.8.2, 10.3.1"},
    {"peer's QP in ERR",                   F(PEER_ERR),              UC, SEND | WRITE,          OK,                   FLUSHED,         NO,     Q(RTS), Q(ERR), "9.8.2, 10.3.1"},
    {"peer's QP destroyed",                F(PEER_GONE),             UC, SEND | WRITE,          OK,                   STAYS,           NO,     Q(RTS), GONE,   "9.8.2"},
    {"peer's QP in ERR",                   F(PEER_ERR),              UD, SEND,                  OK,                   FLUSHED,         NO,     Q(RTS), Q(ERR), "9.8.3, 10.3.1"},
    {"peer's QP destroyed",                F(PEER_GONE),             UD, SEND,                  OK,                   STAYS,           NO,     Q(RTS), GONE,   "9.8.3"},
    {"own QP in ERR",                      F(OWN_ERR),               RC, ALL,                   FLUSHED,              STAYS,           NO,     Q(ERR), Q(RTS), "10.3.1"},
    {"own QP in ERR",                      F(OWN_ERR),               UC, SEND | WRITE,          FLUSHED,              STAYS,           NO,     Q(ERR), Q(RTS), "10.3.1"},
    {"own QP in ERR",                      F(OWN_ERR),               UD, SEND,                  FLUSHED,              STAYS,           NO,     Q(ERR), Q(RTS), "10.3.1"},
    {"own QP in SQD",                      F(OWN_SQD),               RC, SEND | WRITE | READ,       REQUEST_STAYS,        STAYS,           NO,     Q(SQD), Q(RTS), "10.3.1"},
    {"own QP in SQE",                      F(OWN_SQE),               UC, SEND | WRITE,              FLUSHED,              STAYS,           NO,     Q(SQE), Q(RTS), "10.3.1"},
    {"own QP in SQE",                      F(OWN_SQE),               UD, SEND,                      FLUSHED,              STAYS,           NO,     Q(SQE), Q(RTS), "10.3.1"},
    {"wrong Q_Key",                        F(WRONG_QKEY),            UD, SEND,                  OK,                   STAYS,           NO,     Q(RTS), Q(RTS), "9.8.3, 10.2.5"},
    /* XRC: receive requests are the SRQ's, which outlives what happens to a target */
    {"unknown R_Key",                      F(REMOTE_KEY),            XRC, REMOTE,                    W(REM_ACCESS_ERR),    STAYS,           ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5"},
    {"R_Key of a deregistered region",     F(REMOTE_DEREGISTERED),   XRC, REMOTE,                    W(REM_ACCESS_ERR),    STAYS,           ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5"},
    {"R_Key of another PD than the SRQ's", F(REMOTE_OTHER_PD),       XRC, REMOTE,                    W(REM_ACCESS_ERR),    STAYS,           ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5, A14"},
    {"region without the right",           F(REMOTE_NO_RIGHT),       XRC, REMOTE,                    W(REM_ACCESS_ERR),    STAYS,           ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5"},
    {"past the end of the region",         F(REMOTE_END),            XRC, REMOTE,                    W(REM_ACCESS_ERR),    STAYS,           ACCESS, Q(ERR), Q(ERR), "9.7.4.1.5"},
    {"memory of the region is unmapped",   F(REMOTE_MEMORY_GONE),    XRC, REMOTE,                    W(REM_OP_ERR),        STAYS,           ACCESS, Q(ERR), Q(ERR), "9.7.5.2"},
    {"no SRQ of the target's domain",      F(WRONG_SRQ),             XRC, SEND | REMOTE,             W(REM_INV_REQ_ERR),   STAYS,           ACCESS, Q(ERR), Q(ERR), "A14"},
    {"unknown R_Key",                      F(REMOTE_KEY),            XRC, INV,                      W(RETRY_EXC_ERR),     W(MW_BIND_ERR),  NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"peer's QP does not allow it",        F(QP_FORBIDS),            XRC, REMOTE,                    W(REM_INV_REQ_ERR),   STAYS,           REQ,    Q(ERR), Q(ERR), "9.7.4.1"},
    {"address not a multiple of 8",        F(UNALIGNED),             XRC, ATOMIC | ATOMIC_WRITE,     W(REM_INV_REQ_ERR),   STAYS,           REQ,    Q(ERR), Q(ERR), "9.4.5"},
    {"peer answers no READs",              F(NO_READS_THERE),        XRC, READ | ATOMIC | ATOMIC_WRITE,W(REM_INV_REQ_ERR),   STAYS,           REQ,    Q(ERR), Q(ERR), "9.7.4.1"},
    {"own QP asks for no READs",           F(NO_READS_HERE),         XRC, READ | ATOMIC | ATOMIC_WRITE,W(LOC_QP_OP_ERR),     STAYS,           NO,     Q(ERR), Q(RTS), "11.6.2"},
    {"unknown L_Key",                      F(LOCAL_KEY),             XRC, SEND | REMOTE,             W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 11.6.2"},
    {"L_Key of another PD",                F(LOCAL_OTHER_PD),        XRC, SEND | REMOTE,             W(LOC_PROT_ERR),      STAYS,           NO,     Q(ERR), Q(RTS), "9.9.2, 11.6.2"},
    {"message longer than its receive",    F(RECEIVE_TOO_SHORT),     XRC, SEND,                      W(REM_INV_REQ_ERR),   W(LOC_LEN_ERR),  REQ,    Q(ERR), Q(ERR), "9.7.4.1.6"},
    {"unknown L_Key of the receive",       F(RECEIVE_KEY),           XRC, SEND,                      W(REM_OP_ERR),        W(LOC_PROT_ERR), NO,     Q(ERR), Q(ERR), "9.9.3"},
    {"no receive request",                 F(NO_RECEIVE),            XRC, SEND | OP(IBV_WR_RDMA_WRITE_WITH_IMM),W(RNR_RETRY_EXC_ERR), STAYS,           NO,     Q(ERR), Q(RTS), "9.7.5.2"},
    {"peer's QP in RESET",                 F(PEER_RESET),            XRC, SEND | REMOTE,             W(RETRY_EXC_ERR),     STAYS,           NO,     Q(ERR), Q(RESET),"9.9.2"},
    {"peer's QP in ERR",                   F(PEER_ERR),              XRC, SEND | REMOTE,             W(RETRY_EXC_ERR),     STAYS,           NO,     Q(ERR), Q(ERR), "9.9.2"},
    {"peer's QP destroyed",                F(PEER_GONE),             XRC, SEND | REMOTE,             W(RETRY_EXC_ERR),     STAYS,           NO,     Q(ERR), GONE,   "9.9.2"},
    {"own QP in ERR",                      F(OWN_ERR),               XRC, SEND | REMOTE,             FLUSHED,              STAYS,           NO,     Q(ERR), Q(RTS), "10.3.1"},
};
/* clang-format on */
const unsigned row_count = COUNT_OF(rows);

const char *operation_name(enum ibv_wr_opcode opcode)
{
    for (unsigned i = 0; i < operation_count; i++)
        if (operations[i].opcode == opcode)
            return operations[i].name;
    return "?";
}

static const char *status_name(int status)
{
    static const char *const names[] = {
        [IBV_WC_SUCCESS] = "success",
        [IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
        [IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
        [IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
        [IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
        [IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
        [IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
        [IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
        [IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
        [IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
    };

    return status == RECEIVE_STAYS || status == REQUEST_STAYS ? "-" : names[status];
}

static const char *event_name(int event)
{
    if (event == IBV_EVENT_QP_ACCESS_ERR)
        return "QP_ACCESS_ERR";
    if (event == IBV_EVENT_QP_REQ_ERR)
        return "QP_REQ_ERR";
    return event == IBV_EVENT_COMM_EST ? "COMM_EST" : "-";
}

static const char *state_name(enum ibv_qp_state state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return state == GONE ? "-" : names[state];
}

static const char *type_name(enum ibv_qp_type type)
{
    if (type == IBV_QPT_XRC_SEND)
        return "XRC";
    return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

static void print_operations(uint32_t set)
{
    const char *before = "";

    for (unsigned i = 0; i < operation_count; i++) {
        if ((set & OP(operations[i].opcode)) == 0)
            continue;
        printf("%s%s", before, operations[i].name);
        before = ", ";
    }
}

void print_table(void)
{
    printf("| what is wrong | on | with | request | receive request | event | own QP | peer's QP "
           "| IBA |\n|---|---|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < row_count; i++) {
        const struct row *r = &rows[i];

        printf("| %s | %s | ", r->name, type_name(r->type));
        print_operations(r->operations);
        printf(" | %s | %s | %s | %s | %s | %s |\n", status_name(r->status),
               status_name(r->receive), event_name(r->event), state_name(r->own_state),
               state_name(r->peer_state), r->reason);
    }
}
