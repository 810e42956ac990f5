/**
 * What the index of a 32-bit word, and of a 16-bit one, is masked with. No word of a memory of 2^32 bytes has
 * a larger index, so the mask changes nothing; but the compiler sees that nothing added to such an index
 * overflows, and leaves out the checks.
 */
export const WORD = 0x3fffffff;
export const HALF_WORD = 0x7fffffff;

/** The same for the index of a descriptor: there are at most 32768. */
export const HEAD = 0x7fff;
