#define TRITIUM_SNAKE_FUNCTIONS kSnakeGeneric
#include "kernels/cpu/snake_block.h"
