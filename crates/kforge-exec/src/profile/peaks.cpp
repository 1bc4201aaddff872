// What this machine's memory and arithmetic give: bytes per second read and in a triad, single-precision operations per
// second. Best of several rounds. Arguments: threads, bytes of one array.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64)));
#elif defined(__AVX__)
typedef float vec __attribute__((vector_size(32)));
#else
typedef float vec __attribute__((vector_size(16)));
#endif
static const int LANES = sizeof(vec) / sizeof(float);
static const int CHAINS = 10;  // enough to hide the latency of two units, few enough for 16 registers

static double seconds(int threads, const std::function<void(int)>& work) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> pool;
    for (int t = 1; t < threads; ++t) pool.emplace_back(work, t);
    work(0);
    for (auto& thread : pool) thread.join();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static float multiply_add(long rounds, float seed) {
    vec chain[CHAINS];
    const vec scale = vec{} + 0.999f, offset = vec{} + seed;
    for (int i = 0; i < CHAINS; ++i) chain[i] = offset + float(i);
    for (long r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; ++i) chain[i] = chain[i] * scale + offset;
    }
    vec sum = vec{};
    for (int i = 0; i < CHAINS; ++i) sum += chain[i];
    return sum[0];
}

static float read_all(const vec* from, long count) {
    vec a = vec{}, b = vec{}, c = vec{}, d = vec{};
    for (long i = 0; i + 3 < count; i += 4) {
        a += from[i];
        b += from[i + 1];
        c += from[i + 2];
        d += from[i + 3];
    }
    const vec sum = a + b + c + d;
    return sum[0];
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const int threads = std::atoi(argv[1]);
    const long count = std::atol(argv[2]) / long(sizeof(vec)) / threads;
    if (threads < 1 || count < 16) return 2;
    std::vector<vec*> x(threads), y(threads), z(threads);
    std::vector<float> sink(threads);
    seconds(threads, [&](int t) {
        vec** all[] = {&x[t], &y[t], &z[t]};
        for (vec** one : all) {
            *one = static_cast<vec*>(std::aligned_alloc(64, count * sizeof(vec)));
            if (!*one) std::abort();
            for (long i = 0; i < count; ++i) (*one)[i] = vec{} + float(t);
        }
    });
    double read = 1e30, triad = 1e30, arithmetic = 1e30;
    const long rounds = 4000000;
    for (int round = 0; round < 6; ++round) {
        double took = seconds(threads, [&](int t) { sink[t] += read_all(x[t], count); });
        read = took < read ? took : read;
        took = seconds(threads, [&](int t) {
            vec *a = x[t], *b = y[t], *c = z[t];
            for (long i = 0; i < count; ++i) a[i] = b[i] + c[i] * 3.0f;
        });
        triad = took < triad ? took : triad;
        took = seconds(threads, [&](int t) { sink[t] += multiply_add(rounds, float(t) + 1.0f); });
        arithmetic = took < arithmetic ? took : arithmetic;
    }
    float total = 0;
    for (float s : sink) total += s;
    const double bytes = double(count) * sizeof(vec) * threads;
    std::printf("read %.6e\ntriad %.6e\nflops %.6e\n", bytes / read, 3 * bytes / triad,
                2.0 * LANES * CHAINS * double(rounds) * threads / arithmetic);
    return total == 12345.0f;
}
