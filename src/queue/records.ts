import type { Arena, LinearMemory } from '../memory.js';

/**
 * An array of records in the engine's memory, seen as 32-bit words. An unshared WebAssembly memory that
 * grows detaches its views; a detached view has length 0, and `view` is derived again.
 */
export class Records {
  readonly address: number;
  private words: Uint32Array;

  constructor(
    readonly memory: LinearMemory,
    private readonly arena: Arena,
    private readonly bytes: number,
  ) {
    this.address = arena.alloc(bytes, 16);
    this.words = this.derive();
  }

  get view(): Uint32Array {
    const { words } = this;
    return words.length === 0 ? this.derive() : words;
  }

  private derive(): Uint32Array {
    this.words = new Uint32Array(this.memory.buffer, this.address, this.bytes >>> 2);
    return this.words;
  }

  free(): void {
    this.arena.free(this.address);
  }
}
