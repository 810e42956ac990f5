import { VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';

const NO_WORDS = new Uint32Array(0);

/**
 * An array of records in the engine's memory, seen as 32-bit words. An unshared WebAssembly memory that
 * grows detaches its views: a detached view has length 0, and the words are derived again.
 */
export class Records {
  readonly address: number;
  /** For whoever cannot afford `view`, which is a call more in a loop: of length 0 where `renew` comes first. */
  words: Uint32Array;
  private freed = false;

  constructor(
    readonly memory: LinearMemory,
    private readonly arena: Arena,
    private readonly bytes: number,
  ) {
    this.address = arena.alloc(bytes, 16);
    this.words = this.renew();
  }

  /**
   * The word at `index`, which is one of the records'. A detached view has no words: that is noticed only
   * when it happens, and costs nothing otherwise.
   */
  at(index: number): number {
    return this.words[index] ?? this.renew()[index];
  }

  get view(): Uint32Array {
    const { words } = this;
    return words.length === 0 ? this.renew() : words;
  }

  /** Derives the words again. @throws VringError EINVAL if the records were freed */
  renew(): Uint32Array {
    if (this.freed)
      throw new VringError('EINVAL', 'these records were freed, or the queue was released: create new ones');
    this.memory.fresh();
    this.words = new Uint32Array(this.memory.buffer, this.address, this.bytes >>> 2);
    return this.words;
  }

  /** @throws VringError EINVAL if they were freed before: by now the address may be somebody else's */
  free(): void {
    if (this.freed) this.renew();
    this.arena.free(this.address);
    this.freed = true;
    this.words = NO_WORDS;
  }
}
