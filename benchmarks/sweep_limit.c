/* The practical limit of the sweep: every 1D plan on every machine, by hand.
 *
 * Machines are a grid: HBM bandwidths [A] by slow bandwidths [B]. Roofline times of the distinct
 * (tensor, microbatch) rows are a table on A alone; collectives and sends are tables on B alone,
 * which stay in cache; all of them are filled inside this call. A tile is one HBM bandwidth by
 * WIDE vectors of slow bandwidths: its minima and the plans that hold them stay in registers while
 * all plans of one cluster size pass by. B must be a multiple of LANES * WIDE.
 *
 * C, compiled as GNU C++ for its choice between vectors, `mask ? a : b`.
 */
#include <math.h>
#include <stdlib.h>

#define LANES 8
#ifndef WIDE
#define WIDE 4
#endif

typedef double vector __attribute__((vector_size(8 * LANES)));

typedef struct { /* machine-independent numbers of one plan */
    double passes;   /* layer passes, the bubble's share included: (forward + backward) times this */
    double sends;    /* sends, the bubble's share included */
    double layers;   /* of a stage, less one: those whose late collectives are exposed */
    int row, tensor, data, send; /* rows of the four tables */
} plan;

typedef struct { /* one operation in one direction: seconds apart from bandwidth, bytes */
    double seconds, bytes;
} work;

typedef struct { /* one collective or send: t = max(wide * x, near) + hops, x = 1 / slow rate */
    double wide, near, hops;
} message;

typedef union {
    vector lanes;
    double each[LANES];
} cell;

static inline vector larger(vector a, vector b)
{
    return a > b ? a : b;
}

static void link_table(const message *rows, int count, const double *inverse, int slow, double *out)
{
#pragma omp parallel for
    for (int r = 0; r < count; r++)
        for (int b = 0; b < slow; b++) {
            double wide = rows[r].wide * inverse[b], near = rows[r].near;
            out[(size_t)r * slow + b] = (wide > near ? wide : near) + rows[r].hops;
        }
}

static void compute_table(const work *rows, int count, int operations, const double *hbm, int wide,
                          double *out)
{
#pragma omp parallel for
    for (int a = 0; a < wide; a++)
        for (int r = 0; r < count; r++) { /* forward, backward */
            double total = 0.0;
            for (int o = 0; o < operations; o++) {
                work w = rows[(size_t)r * operations + o];
                double memory = w.bytes / hbm[a];
                total += w.seconds > memory ? w.seconds : memory;
            }
            out[(size_t)a * count + r] = total;
        }
}

static void tile(const plan *plans, int count, const double *forward, const double *backward,
                 const double *tensor, const double *data, const double *send, int slow, int b,
                 double *best, double *winner)
{
    vector least[WIDE], held[WIDE];
    for (int w = 0; w < WIDE; w++) {
        least[w] = (vector){} + INFINITY;
        held[w] = (vector){} - 1.0;
    }
    for (int p = 0; p < count; p++) {
        const plan *one = plans + p;
        double ahead = forward[one->row], back = backward[one->row];
        const vector *t = (const vector *)(tensor + (size_t)one->tensor * slow + b);
        const vector *d = (const vector *)(data + (size_t)one->data * slow + b);
        const vector *s = (const vector *)(send + (size_t)one->send * slow + b);
        vector number = (vector){} + (double)p;
        /* max(d - f, 0) = max(d, f) - f: the subtracted times join those of the passes */
        double passes = one->passes - one->layers;
        double fixed = (ahead + back) * passes, hidden = 2.0 * passes;
#pragma GCC unroll 8
        for (int w = 0; w < WIDE; w++) {
            vector later = larger(d[w], t[w] + ahead) + larger(d[w], t[w] + back);
            vector time = s[w] * one->sends + fixed + t[w] * hidden + d[w] * 2.0
                          + later * one->layers;
            held[w] = time < least[w] ? number : held[w];
            least[w] = time < least[w] ? time : least[w];
        }
    }
    for (int w = 0; w < WIDE; w++) {
        cell value = {least[w]}, index = {held[w]};
        for (int l = 0; l < LANES; l++) {
            best[b + w * LANES + l] = value.each[l];
            winner[b + w * LANES + l] = index.each[l];
        }
    }
}

/* Fill best and winner [sizes, A, B]; plans of size n are plans[starts[n] .. starts[n + 1]]. */
extern "C" int sweep(int sizes, const int *starts, const plan *plans, int rows, int operations,
          const work *forward, const work *backward, int tensors, const message *tensor, int datas,
          const message *data, int sends, const message *send, int wide, const double *hbm,
          int slow, const double *inverse, double *best, double *winner)
{
    size_t computes = (size_t)rows * wide, links = (size_t)(tensors + datas + sends) * slow;
    double *memory = (double *)aligned_alloc(64, (8 * (2 * computes + links) + 63) / 64 * 64);
    if (!memory || slow % (LANES * WIDE))
        return 1;
    double *t = memory, *d = t + (size_t)tensors * slow, *s = d + (size_t)datas * slow;
    double *ahead = s + (size_t)sends * slow, *back = ahead + computes;
    link_table(tensor, tensors, inverse, slow, t);
    link_table(data, datas, inverse, slow, d);
    link_table(send, sends, inverse, slow, s);
    compute_table(forward, rows, operations, hbm, wide, ahead);
    compute_table(backward, rows, operations, hbm, wide, back);
#pragma omp parallel for collapse(3) schedule(dynamic)
    for (int n = sizes - 1; n >= 0; n--) /* the largest sizes first: an even finish */
        for (int a = 0; a < wide; a++)
            for (int b = 0; b < slow; b += LANES * WIDE) {
                size_t at = ((size_t)n * wide + a) * slow;
                tile(plans + starts[n], starts[n + 1] - starts[n], ahead + (size_t)a * rows,
                     back + (size_t)a * rows, t, d, s, slow, b, best + at, winner + at);
            }
    free(memory);
    return 0;
}
