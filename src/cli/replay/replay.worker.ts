// One engine's side of a replay, in a thread of its own.
import { parentPort, workerData } from 'node:worker_threads';
import type { Frames } from './frames.js';
import { Replay, type ReplayOptions, type Run } from './replay.js';

export interface WorkerData {
  engine: 'wasm' | 'typescript';
  frames: Frames;
  options: ReplayOptions;
}

/** Replay all packets so many times. */
export type Request = number;
export type Reply = { run: Run } | { error: string };

const { engine, frames, options } = workerData as WorkerData;
const ready = Replay.create(engine, frames, options);

parentPort?.on('message', async (passes: Request) => {
  let reply: Reply;
  try {
    reply = { run: (await ready).run(passes) };
  } catch (error) {
    reply = { error: (error as Error).message };
  }
  parentPort?.postMessage(reply);
});
