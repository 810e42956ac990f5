import { FAULT_NONE, FAULT_SEGMENT_RANGE, RESULT_BROKEN } from '../../../assembly/abi/layout.js';
import type { LinearMemory } from '../../memory.js';
import type { TranslationStrategy } from '../engine.js';
import type { Regions } from '../regions.js';
import * as Desc from './abi/desc.js';
import { PIECE_ADDRESS, PIECE_LENGTH, PIECE_SHIFT } from './abi/records.js';
import { AT_FIT, AT_HIGH, AT_LENGTH, AT_LOCAL, AT_LOW, Translation } from './mm/translation.js';
import { BaseRing } from './ring.js';

/** What the devices of both ring formats need to follow the chains of a driver that is not trusted. */
export abstract class ChainReader extends BaseRing {
  availableIn = 0;
  availableOut = 0;

  protected readonly translation: Translation;
  /** The descriptor read last from a table that is not aligned. */
  private readonly gathered = new Uint32Array(Desc.WORDS);

  // What was found in the last chain.
  protected chainOut = 0;
  protected chainIn = 0;
  protected chainTables = 0;
  protected chainSegments = 0;
  protected chainReadable = 0;
  protected chainWritable = 0;
  /** Something of it did not lie in the window. */
  protected chainStrayed = false;
  // Why the last chain was refused: it becomes the ring's fault only if the chain is first in line.
  private suspect = FAULT_NONE;
  private suspectA = 0n;
  private suspectB = 0n;

  /** All of the translation cache is cleared for each chain. */
  protected readonly eager: boolean;

  protected constructor(memory: LinearMemory, regions: Regions, strategy: TranslationStrategy) {
    super(memory);
    this.translation = new Translation(regions);
    this.eager = strategy === 'eager';
  }

  setRegions(regions: Regions): void {
    this.memory.fresh();
    this.translation.set(regions);
  }

  /**
   * Eager, for chains that were taken without a look at the cache: once for each. Behind the loop that takes them, so that
   * the loop for the other strategy has nothing of it; it takes no longer here than there.
   */
  protected clearFor(chains: number): void {
    const { cache } = this.translation;
    for (let i = 0; i < chains; i++) cache.clear();
  }

  /** Before a chain, or a query, is followed: nothing that was cached before may be believed. */
  protected beginTranslation(): void {
    if (this.eager) this.translation.cache.clear();
    else this.translation.cache.begin();
  }

  /**
   * Writes the pieces of the segment in the question of `translation`, behind the first `pieces` and as far
   * as `room` goes. Returns how many there are then, or RESULT_BROKEN with the reason noted.
   */
  protected place(piece: number, pieces: number, room: number): number {
    const { translation } = this;
    const { u32 } = this.memory;
    const { at } = translation;
    const low = at[AT_LOW];
    const high = at[AT_HIGH];
    const length = at[AT_LENGTH];
    if (translation.wraps()) return this.suspected(FAULT_SEGMENT_RANGE, this.asked(), BigInt(length));
    at[AT_LOCAL] = 0;
    at[AT_FIT] = 0;
    let n = pieces;
    // Ends: each region found takes at least one byte off AT_LENGTH. A length of 0 is one piece, nowhere.
    do {
      if (length !== 0 && !translation.find()) {
        at[AT_LOW] = low;
        at[AT_HIGH] = high;
        return this.suspected(FAULT_SEGMENT_RANGE, this.asked(), BigInt(length));
      }
      if (n < room) {
        const p = piece + (n << PIECE_SHIFT);
        u32[p + PIECE_ADDRESS] = at[AT_LOCAL];
        u32[p + PIECE_LENGTH] = at[AT_FIT];
      }
      n++;
    } while (translation.advance());
    return n;
  }

  /** The address in the question of `translation`. */
  protected asked(): bigint {
    const { at } = this.translation;
    return (BigInt(at[AT_HIGH]) << 32n) | BigInt(at[AT_LOW]);
  }

  /** Copy of the descriptor at a byte address that is not aligned; each byte is loaded once. */
  protected gather(address: number): Uint32Array {
    const { u8 } = this.memory;
    const { gathered } = this;
    for (let i = 0; i < gathered.length; i++) gathered[i] = Desc.unalignedWord(u8, address + (i << 2));
    return gathered;
  }

  /** Notes why a chain is bad. Nothing more may come of it: see `convict`. */
  protected suspected(kind: number, a: bigint, b: bigint): number {
    this.suspect = kind;
    this.suspectA = a;
    this.suspectB = b;
    return RESULT_BROKEN;
  }

  /** Breaks the ring for what was noted last: the bad chain is first in line. */
  protected convict(): number {
    return this.broke(this.suspect, this.suspectA, this.suspectB);
  }
}
