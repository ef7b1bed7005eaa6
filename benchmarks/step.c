/* The floor: the training step of train_numpy.py in plain loops, float32, one thread.
   Built by bench.py, which sets N, H and the sizes below. Every matrix lies row by row. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { V = 27, E = 10, CONTEXT = 3, D = E * CONTEXT };

typedef struct {
    float C[V][E], W1[D][H], W2[H][V], b2[V], gain[H], bias[H];
} Parameters;

static float X[N][D], hc[N][H], h[N][H], counts[N][V], dh[N][H], dX[N][D];
static float W1T[H][D], W2T[V][H];
static Parameters grads;

static float cross_entropy(int row, int64_t target, float rate)
{
    float *c = counts[row], top = c[0], sum = 0;
    for (int j = 1; j < V; j++) top = c[j] > top ? c[j] : top;
    float picked = c[target] - top;
    for (int j = 0; j < V; j++) c[j] = expf(c[j] - top);
    for (int j = 0; j < V; j++) sum += c[j];
    for (int j = 0; j < V; j++) c[j] *= rate / N / sum;  /* from here on: dlogits, times the rate */
    c[target] -= rate / N;
    return logf(sum) - picked;
}

/* seconds spent since the last mark, on one of bench.py's groups */
static double last;
static void mark(double *group)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now = t.tv_sec + 1e-9 * t.tv_nsec;
    if (group) *group += now - last;
    last = now;
}

/* `count` steps on minibatches Xb (count, N, CONTEXT), Yb (count, N); p, mean, var change, losses are filled.
   groups, six sums of seconds, may be NULL. */
void steps(Parameters *p, float *mean, float *var, const int64_t *Xb, const int64_t *Yb, int64_t count,
           float rate, float *losses, double *groups)
{
    for (int64_t s = 0; s < count; s++, Xb += N * CONTEXT, Yb += N) {
        float x_mean[D] = {0}, dx_mean[D] = {0}, h_mean[H] = {0}, v[H] = {0}, inv[H], along[H];
        memset(&grads, 0, sizeof grads);
        if (groups) mark(0);
        /* embedding, centred */
        for (int i = 0; i < N; i++)
            for (int c = 0; c < CONTEXT; c++)
                memcpy(X[i] + c * E, p->C[Xb[i * CONTEXT + c]], sizeof p->C[0]);
        for (int i = 0; i < N; i++) for (int k = 0; k < D; k++) x_mean[k] += X[i][k] / N;
        for (int i = 0; i < N; i++) for (int k = 0; k < D; k++) X[i][k] -= x_mean[k];
        /* first layer, BatchNorm, tanh */
        for (int k = 0; k < D; k++) for (int j = 0; j < H; j++) h_mean[j] += x_mean[k] * p->W1[k][j];
        memset(hc, 0, sizeof hc);
        for (int i = 0; i < N; i++)
            for (int k = 0; k < D; k++) for (int j = 0; j < H; j++) hc[i][j] += X[i][k] * p->W1[k][j];
        for (int i = 0; i < N; i++) for (int j = 0; j < H; j++) v[j] += hc[i][j] * hc[i][j] / (N - 1);
        for (int j = 0; j < H; j++) inv[j] = 1 / sqrtf(v[j] + 1e-5f);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < H; j++) h[i][j] = tanhf(hc[i][j] * p->gain[j] * inv[j] + p->bias[j]);
        for (int j = 0; j < H; j++) {
            mean[j] = 0.999f * mean[j] + 0.001f * h_mean[j];
            var[j] = 0.999f * var[j] + 0.001f * v[j];
        }
        if (groups) mark(groups);
        /* logits and cross-entropy */
        float loss = 0;
        for (int i = 0; i < N; i++) {
            memcpy(counts[i], p->b2, sizeof p->b2);
            for (int k = 0; k < H; k++) for (int j = 0; j < V; j++) counts[i][j] += h[i][k] * p->W2[k][j];
            loss += cross_entropy(i, Yb[i], rate) / N;
        }
        losses[s] = loss;
        if (groups) mark(groups + 1);
        /* second layer */
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < V; j++) grads.b2[j] += counts[i][j];
            for (int k = 0; k < H; k++) for (int j = 0; j < V; j++) grads.W2[k][j] += h[i][k] * counts[i][j];
        }
        for (int k = 0; k < H; k++) for (int j = 0; j < V; j++) W2T[j][k] = p->W2[k][j];
        memset(dh, 0, sizeof dh);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < V; j++) for (int k = 0; k < H; k++) dh[i][k] += counts[i][j] * W2T[j][k];
        if (groups) mark(groups + 2);
        /* tanh, BatchNorm without the path through the mean */
        for (int i = 0; i < N; i++)
            for (int j = 0; j < H; j++) {
                dh[i][j] *= 1 - h[i][j] * h[i][j];
                grads.bias[j] += dh[i][j];
                grads.gain[j] += dh[i][j] * hc[i][j] * inv[j];
            }
        for (int j = 0; j < H; j++) along[j] = grads.gain[j] * inv[j] / (N - 1);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < H; j++) dh[i][j] = (dh[i][j] - hc[i][j] * along[j]) * p->gain[j] * inv[j];
        if (groups) mark(groups + 3);
        /* first layer; the path through the mean, on the input's columns */
        for (int i = 0; i < N; i++)
            for (int k = 0; k < D; k++) for (int j = 0; j < H; j++) grads.W1[k][j] += X[i][k] * dh[i][j];
        for (int k = 0; k < D; k++) for (int j = 0; j < H; j++) W1T[j][k] = p->W1[k][j];
        memset(dX, 0, sizeof dX);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < H; j++) for (int k = 0; k < D; k++) dX[i][k] += dh[i][j] * W1T[j][k];
        for (int i = 0; i < N; i++) for (int k = 0; k < D; k++) dx_mean[k] += dX[i][k] / N;
        if (groups) mark(groups + 4);
        /* embedding, update */
        for (int i = 0; i < N; i++)
            for (int c = 0; c < CONTEXT; c++)
                for (int e = 0; e < E; e++)
                    grads.C[Xb[i * CONTEXT + c]][e] += dX[i][c * E + e] - dx_mean[c * E + e];
        for (size_t i = 0; i < sizeof *p / sizeof(float); i++) ((float *)p)[i] -= ((float *)&grads)[i];
        if (groups) mark(groups + 5);
    }
}
