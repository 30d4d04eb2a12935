/*
 * What this processor can multiply at most with the instructions that an engine has, in Gop/s: nothing else
 * is in these loops, and all lies in registers or the fastest cache. For x86-64 with AVX2:
 *
 *     gcc -O2 bench/engine/product-limits.c -o /tmp/product-limits && /tmp/product-limits
 *
 * WebAssembly has 128 bits, no sums of bytes that are exact for all of them, and in Node 20 no relaxed ones.
 */
#include <stdio.h>
#include <time.h>

#define TURNS 20000
#define WINDOWS 400

static char memory[64] __attribute__((aligned(64)));

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

#define CLOBBERED                                                                                  \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
      "xmm12", "xmm13", "xmm14", "xmm15"

/* The fastest of many short windows: whatever else runs on the core is no part of the limit. */
#define MEASURE(name, multiplications, code)                                       \
  do {                                                                             \
    double best = 1e9;                                                             \
    for (int window = 0; window < WINDOWS; window++) {                             \
      double start = seconds();                                                    \
      for (int turn = 0; turn < TURNS; turn++)                                     \
        __asm__ volatile(code : : "r"(memory) : CLOBBERED);                        \
      double took = seconds() - start;                                             \
      if (took < best) best = took;                                                \
    }                                                                              \
    printf("%-62s %5.0f Gop/s\n", name, 2.0 * (multiplications) * TURNS / best / 1e9); \
  } while (0)

/* Multiplies pairs of 16-bit numbers and adds them to a sum. */
#define PAIRS(r, sum, weights, row, product)                      \
  "vpmaddwd %%" r weights ",%%" r row ",%%" r product "\n"        \
  "vpaddd %%" r product ",%%" r sum ",%%" r sum "\n"
/* The same with fours of bytes, of which one is positive. */
#define FOURS(r, sum, weights, row, product)                      \
  "vpmaddubsw %%" r weights ",%%" r row ",%%" r product "\n"      \
  "vpmaddwd %%" r "15,%%" r product ",%%" r product "\n"          \
  "vpaddd %%" r product ",%%" r sum ",%%" r sum "\n"
/* Four rows by two vectors of weights. */
#define FOUR_ROWS(STEP, r)                                                                   \
  STEP(r, "0", "8", "10", "14") STEP(r, "1", "9", "10", "14") STEP(r, "2", "8", "11", "14")  \
  STEP(r, "3", "9", "11", "14") STEP(r, "4", "8", "12", "14") STEP(r, "5", "9", "12", "14")  \
  STEP(r, "6", "8", "13", "14") STEP(r, "7", "9", "13", "14")
#define ROWS(r)                                                                        \
  "vbroadcastss (%0),%%" r "10\nvbroadcastss 4(%0),%%" r "11\n"                        \
  "vbroadcastss 8(%0),%%" r "12\nvbroadcastss 12(%0),%%" r "13\n"
#define WIDENED(r) "vpmovsxbw (%0),%%" r "8\nvpmovsxbw 8(%0),%%" r "9\n"
/* Our kernel's loop: four rows by eight outputs, a pair of inputs of each, unrolled as V8 does. */
#define KERNEL WIDENED("xmm") ROWS("xmm") FOUR_ROWS(PAIRS, "xmm")

int main(void) {
  MEASURE("128 bits, 16-bit pairs: the instructions alone", 64, FOUR_ROWS(PAIRS, "xmm"));
  MEASURE("128 bits, 16-bit pairs, rows and bytes loaded: our kernel's loop", 4 * 64,
          KERNEL KERNEL KERNEL KERNEL);
  MEASURE("128 bits, fours of bytes of which one has 7 bits: relaxed SIMD", 128,
          ROWS("xmm") FOUR_ROWS(FOURS, "xmm"));
  MEASURE("256 bits, 16-bit pairs", 128, FOUR_ROWS(PAIRS, "ymm"));
  MEASURE("256 bits, fours of bytes", 256, FOUR_ROWS(FOURS, "ymm"));
  return 0;
}
