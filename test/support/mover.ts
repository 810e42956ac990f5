// One side of a queue on a thread of its own: moves buffers to the other side and back, by polling.

import { parentPort, workerData } from 'node:worker_threads';
import { Feature, type Host } from '../../src/index.js';
import { type EngineName, loader } from './engines.js';
import type { RingAreas } from './split-ring.js';

export interface MoverData {
  role: 'driver' | 'device';
  engine: EngineName;
  memory: WebAssembly.Memory;
  /** The arena of this side. */
  base: number;
  bytes: number;
  areas: RingAreas;
  size: number;
  /** Where the data lies: `size` slots of 64 bytes. */
  data: number;
  count: number;
  /** Address of a word that nobody ever notifies. */
  doze: number;
}

const FEATURES = [Feature.VERSION_1, Feature.EVENT_IDX, Feature.INDIRECT_DESC];
const BURST = 32;
const LOST_AFTER_MS = 8000;

/** What the driver sends as word `k` of buffer `token`, and what the device makes of it. */
const question = (token: number, k: number): number => (Math.imul(token, 2654435761) + k) | 0;
const answer = (word: number): number => Math.imul(word ^ 0x5a5a5a5a, 40503) | 0;

/** Gives way when there is nothing to do, and gives up when there never is. */
class Patience {
  private since = 0;
  private idle = 0;

  constructor(
    private readonly i32: Int32Array,
    private readonly at: number,
  ) {}

  spent(progress: boolean): boolean {
    if (progress) {
      this.idle = 0;
      this.since = 0;
      return false;
    }
    if (++this.idle < 1000) return false;
    this.since ||= Date.now();
    Atomics.wait(this.i32, this.at, 0, 0.05);
    return Date.now() - this.since > LOST_AFTER_MS;
  }
}

function drive(host: Host, { areas, size, data, count, doze }: MoverData): string {
  const i32 = new Int32Array(host.buffer);
  const driver = host.driverQueue({ ring: 'split', size, features: FEATURES, areas });
  const burst = driver.createBurst(BURST, 2 * BURST);
  const completions = driver.createCompletions(BURST);
  const free = Array.from({ length: size }, (_, i) => data + 64 * i);
  const slots = new Map<number, number>();
  const patience = new Patience(i32, doze >>> 2);
  let token = 0;
  let done = 0;
  // The ring is cleared now: the device may look at it.
  Atomics.store(i32, (doze >>> 2) + 1, 1);
  while (done < count) {
    while (burst.pending < BURST && token < count && free.length > 0) {
      const slot = free.pop() as number;
      for (let k = 0; k < 4; k++) i32[(slot >>> 2) + k] = question(token, k);
      burst
        .out(slot, 8)
        .out(slot + 8, 8)
        .in(slot + 16, 16)
        .end(token);
      slots.set(token++, slot);
      if (burst.segments - 3 * burst.pending < 3) break;
    }
    const added = driver.addBurst(burst);
    if (burst.pending === 0) burst.clear();
    const got = driver.getBurst(completions);
    for (let i = 0; i < got; i++) {
      const back = completions.token(i);
      const slot = slots.get(back);
      if (slot === undefined) return `token ${back} came back twice, or was never sent`;
      slots.delete(back);
      const bytes = 4 * (1 + (back & 3));
      if (completions.length(i) !== bytes)
        return `token ${back}: length ${completions.length(i)}, not ${bytes}`;
      for (let k = 0; k < bytes / 4; k++)
        if (i32[(slot >>> 2) + 4 + k] !== answer(question(back, k)))
          return `token ${back}: word ${k} is wrong`;
      free.push(slot);
    }
    done += got;
    if (patience.spent(added + got > 0)) return `nothing came after ${done} of ${count}`;
  }
  if (driver.numFree !== size || driver.tableBytes !== 0) return 'descriptors or tables are missing';
  const { completed, clamped, bytesIn } = driver.stats();
  return completed === count && clamped === 0 && bytesIn > 0 ? 'ok' : 'the statistics are wrong';
}

function serve(host: Host, { areas, size, count, doze }: MoverData): string {
  const i32 = new Int32Array(host.buffer);
  const patience = new Patience(i32, doze >>> 2);
  while (Atomics.load(i32, (doze >>> 2) + 1) === 0)
    if (patience.spent(false)) return 'the driver did not start';
  const device = host.deviceQueue({ ring: 'split', size, features: FEATURES, areas });
  const elements = device.createElements(BURST);
  let done = 0;
  while (done < count) {
    const n = device.popBurst(elements);
    for (let i = 0; i < n; i++) {
      if (elements.outCount(i) !== 2 || elements.inCount(i) !== 1)
        return `buffer ${done + i} has another shape`;
      const p = elements.first(i);
      const out = elements.address(p) >>> 2;
      const token = done + i;
      for (let k = 0; k < 4; k++)
        if (i32[out + k] !== question(token, k)) return `buffer ${token}: word ${k} has not arrived`;
      const words = 1 + (token & 3);
      const into = elements.address(p + 2) >>> 2;
      for (let k = 0; k < words; k++) i32[into + k] = answer(i32[out + k]);
      elements.setWritten(i, 4 * words);
    }
    if (n > 0) device.pushBurst(elements);
    done += n;
    if (patience.spent(n > 0)) return `nothing came after ${done} of ${count}`;
  }
  return device.stats().completed === count ? 'ok' : 'the statistics are wrong';
}

async function run(data: MoverData): Promise<string> {
  const { engine, memory, base, bytes, role } = data;
  const host = await loader(engine)({ memory, base, size: bytes });
  return role === 'driver' ? drive(host, data) : serve(host, data);
}

if (parentPort !== null) {
  const port = parentPort;
  run(workerData as MoverData).then(
    (verdict) => port.postMessage(verdict),
    (error) => port.postMessage(String(error)),
  );
}
