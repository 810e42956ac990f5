import type { Host } from '../../src/index.js';
import type { Load } from '../support/engines.js';
import type { Range, Trace } from './trace.js';

const ARENA = 2 ** 20;
/** A longer range of guest memory is made of so many bytes again and again: nobody looks into the buffers. */
const CHUNK = 2 ** 22;
const MEMORY_MAX = 2 ** 28;

const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);

interface Placed {
  guest: bigint;
  length: number;
  local: number;
}

/** Local places for all the guest memory that a trace speaks of, as few and as small as possible. */
export class GuestMemory {
  readonly regions: Placed[] = [];
  private readonly end: number;

  /** @param from the first byte that it may take */
  constructor(trace: Trace, from: number) {
    const ranges: { start: bigint; end: bigint }[] = [];
    const note = ([address, length]: Range) =>
      ranges.push({ start: BigInt(address), end: BigInt(address) + BigInt(length) });
    for (const step of trace.steps) {
      if (step.op === 'add') {
        for (const range of [...step.out, ...step.in]) note(range);
        if (step.indirect) note([step.indirect.addr, step.indirect.bytes.length / 2]);
      } else if (step.op === 'cycles') note([65536, 64]);
    }
    ranges.sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
    const merged: typeof ranges = [];
    for (const { start, end } of ranges) {
      const last = merged.at(-1);
      if (last && start <= last.end) last.end = max(last.end, end);
      else merged.push({ start, end });
    }
    let next = from;
    for (const { start, end } of merged) {
      // As aligned as it is in the guest.
      const local = Math.ceil(next / 16) * 16 + Number(start & 15n);
      for (let guest = start; guest < end; guest += BigInt(CHUNK)) {
        const length = Math.min(Number(end - guest), CHUNK);
        this.regions.push({ guest, length, local });
        next = Math.max(next, local + length);
      }
    }
    this.end = next;
  }

  /** An engine on a memory with room for all this, and its arena behind it. */
  async load(load: Load): Promise<Host> {
    const base = Math.ceil(this.end / 65536) * 65536;
    if (base > MEMORY_MAX) throw new Error(`the trace needs ${base} bytes of guest memory`);
    const memory = new WebAssembly.Memory({ initial: (base + ARENA) / 65536 });
    return load({ memory, base, size: ARENA });
  }

  /** Local pieces of a range. */
  pieces([address, length]: Range): { address: number; length: number }[] {
    const pieces: { address: number; length: number }[] = [];
    let guest = BigInt(address);
    for (let left = length; left > 0; ) {
      const region = this.regions.find((r) => guest >= r.guest && guest < r.guest + BigInt(r.length));
      if (!region) throw new Error(`guest address ${guest} has no place`);
      const offset = Number(guest - region.guest);
      const here = Math.min(left, region.length - offset);
      pieces.push({ address: region.local + offset, length: here });
      guest += BigInt(here);
      left -= here;
    }
    return pieces;
  }
}
