import * as L from '../../assembly/abi/layout.js';
import { VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import { integer, show } from './check.js';

/** Buffers that came back from the device: records in the engine's memory, read without garbage. */
export class Completions {
  readonly capacity: number;
  /** How many the last `getBurst` brought. */
  count = 0;
  /** @internal */
  readonly address: number;

  /** Use `driver.createCompletions`. @internal */
  constructor(
    /** @internal */ readonly memory: LinearMemory,
    private readonly arena: Arena,
    capacity: number,
  ) {
    this.capacity = integer(capacity, 'capacity', 1, 1 << 20);
    this.address = arena.alloc(capacity * L.COMPLETION_BYTES, 16);
  }

  /** Token that the buffer was added with. @param i 0 … count-1 */
  token(i: number): number {
    this.memory.fresh();
    return this.memory.u32[this.record(i)];
  }

  /** Bytes that the device wrote, never more than the buffer's writable length. @param i 0 … count-1 */
  length(i: number): number {
    this.memory.fresh();
    return this.memory.u32[this.record(i) + 1];
  }

  private record(i: number): number {
    if (i >>> 0 >= this.count)
      throw new VringError(
        'EINVAL',
        `completion ${show(i)} does not exist, the last call brought ${this.count}`,
      );
    return (this.address >>> 2) + i * (L.COMPLETION_BYTES >>> 2);
  }

  /** Gives the records back to the arena. The object must not be used afterwards. */
  free(): void {
    this.arena.free(this.address);
  }
}
