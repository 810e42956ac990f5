// What a test and the other side of its ring, on a thread of its own, have in common.

import type { Host } from '../../src/index.js';
import { startWorker } from './worker.js';

/** Words (i32) that main thread and peer share. */
export const CONTROL = { ready: 0, done: 1, bell: 2, stop: 3 };

/** What buffer `i` has in its len field and in its first data word: different for neighbours and laps. */
export const lengthOf = (i: number): number => 4 + ((i * 7919) % 1021);
export const wordOf = (i: number): number => (i * 2654435761) >>> 0;

/** Where the data of the buffer in `slot` lies. */
export const dataOf = (data: number, slot: number): number => data + 64 * slot;

const LOST_AFTER_MS = 10_000;

/** Waits until `ready`, first awake and then dozing, in case both threads share a core. */
export function waitUntil(i32: Int32Array, ready: () => boolean): boolean {
  const dozeAt = CONTROL.ready;
  for (let i = 0, deadline = 0; !ready(); i++) {
    if (i < 20000) continue;
    deadline ||= Date.now() + LOST_AFTER_MS;
    if (Date.now() > deadline) return false;
    // Nobody notifies this word: a short sleep.
    Atomics.wait(i32, dozeAt, Atomics.load(i32, dozeAt), 0.05);
  }
  return true;
}

/** What every peer is told. `control` is the address of the words named by `CONTROL`. */
export interface PeerData {
  memory: WebAssembly.Memory;
  control: number;
}

export interface Peer {
  i32: Int32Array;
  /** What the peer found: `ok`, or what was wrong. */
  verdict: Promise<string>;
}

/** Starts a module of this folder as the other side and waits until it runs. */
export async function startPeer<T extends PeerData>(
  module: string,
  engine: Host,
  options: Omit<T, keyof PeerData>,
): Promise<Peer> {
  const control = engine.alloc(16, 4);
  const i32 = new Int32Array(engine.buffer, control, 4).fill(0);
  const workerData = { ...options, memory: engine.memory as WebAssembly.Memory, control };
  const worker = startWorker(new URL(module, import.meta.url), { workerData });
  const verdict = new Promise<string>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject);
    const poll = () => (Atomics.load(i32, CONTROL.ready) === 1 ? resolve() : setTimeout(poll, 1));
    poll();
  });
  return { i32, verdict };
}

export const sharedMemory = (): WebAssembly.Memory =>
  new WebAssembly.Memory({ initial: 32, maximum: 32, shared: true });
