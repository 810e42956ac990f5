import * as L from '../../assembly/abi/layout.js';
import { show, VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import { integer, isU32 } from './check.js';
import { Records } from './records.js';

/** Buffers that came back from the device: records in the engine's memory, read without garbage. */
export class Completions {
  /** Undefined once freed. @internal */
  memory: LinearMemory | undefined;
  readonly capacity: number;
  /** How many the last `getBurst` brought. */
  count = 0;
  private readonly records: Records;

  /** Use `driver.createCompletions`. @internal */
  constructor(memory: LinearMemory, arena: Arena, capacity: number) {
    this.memory = memory;
    this.capacity = integer(capacity, 'capacity', 1, 1 << 20);
    this.records = new Records(memory, arena, capacity * L.COMPLETION_BYTES);
  }

  /** Token that the buffer was added with. @param i 0 … count-1 */
  token(i: number): number {
    if (!isU32(i) || i >= this.count) this.range(i);
    return this.records.at(i * 2);
  }

  /** Bytes that the device wrote, never more than the buffer's writable length. @param i 0 … count-1 */
  length(i: number): number {
    if (!isU32(i) || i >= this.count) this.range(i);
    return this.records.at(i * 2 + 1);
  }

  /**
   * The records, two words each: token, length. For the fastest loops; the first `count` of them mean
   * something. Valid until the memory grows.
   */
  get words(): Uint32Array {
    return this.records.view;
  }

  private range(i: number): never {
    throw new VringError(
      'EINVAL',
      `completion ${show(i)} does not exist, the last call brought ${this.count}`,
    );
  }

  /** @internal */
  get address(): number {
    return this.records.address;
  }

  /** Gives the records back to the arena. The object must not be used afterwards. */
  free(): void {
    this.count = 0;
    this.memory = undefined;
    this.records.free();
  }
}
