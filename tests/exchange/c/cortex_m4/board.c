/* A program without an operating system: it runs a model for some steps, and writes the bits of its outputs and how much
   of the stack a step used, by semihosting. */
#include "model.h"

#define STACK 65536
#define STEPS 5

int main(void);
void reset(void);
static unsigned char stack[STACK] __attribute__((aligned(8)));
__attribute__((section(".vectors"), used)) static void *const vectors[] = { stack + STACK, (void *)reset };

static model_state state;
static float x[MODEL_INPUTS], y[MODEL_OUTPUTS];

static int call_host(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void write_word(uint32_t word)
{
    char text[10];
    for (int i = 0; i < 8; i++)
        text[i] = "0123456789abcdef"[(word >> (28 - 4 * i)) & 15];
    text[8] = '\n';
    text[9] = 0;
    call_host(4, text);
}

int main(void)
{
    union { float value; uint32_t bits; } both;
    model_init(&state);
    for (int t = 0; t < STEPS; t++) {
        for (int j = 0; j < MODEL_INPUTS; j++)
            x[j] = 0.125f * (float)((7 * t + 3 * j) % 16 - 8);
        model_step(&state, x, y);
        for (int j = 0; j < MODEL_OUTPUTS; j++) {
            both.value = y[j];
            write_word(both.bits);
        }
    }
    int free = 0;
    while (free < STACK && stack[free] == 0)
        free++;
    write_word((uint32_t)(STACK - free));
    call_host(0x18, (const void *)0x20026);
    return 0;
}

void reset(void)
{
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* the unit for floats is off at first */
    __asm__ volatile("dsb\nisb");
    main();
    for (;;) {
    }
}
