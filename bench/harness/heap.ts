import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Task } from './serve.js';

export interface HeapUse {
  /** JavaScript heap bytes allocated per buffer. */
  bytes: number;
  buffers: number;
  /** Garbage collections that the work itself brought about. */
  collections: number;
}

const CHUNKS = 10;
const COLLECTIONS_MAX = 100;

/**
 * Measures what a task allocates on the JavaScript heap: the growth of the used heap over chunks of work.
 * A collection within a chunk would hide what it freed, so such a chunk is done again in smaller pieces;
 * where one batch alone brings a collection about, the figure is a lower bound. What the measurement itself allocates is measured first and taken off.
 */
export async function measureHeap(task: Task, buffers: number): Promise<HeapUse> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  let collections = 0;
  const observer = new PerformanceObserver((list) => {
    collections += list.getEntries().length;
  });
  observer.observe({ entryTypes: ['gc'] });
  /** How many collections there were since the last call. */
  const collected = async (): Promise<number> => {
    await new Promise((resolve) => setTimeout(resolve, 2));
    for (const entry of observer.takeRecords()) if (entry.entryType === 'gc') collections++;
    const n = collections;
    collections = 0;
    return n;
  };
  const grown = async (batches: number): Promise<{ bytes: number; collections: number }> => {
    collect();
    await collected();
    const before = getHeapStatistics().used_heap_size;
    for (let i = 0; i < batches; i++) task.batch();
    const bytes = getHeapStatistics().used_heap_size - before;
    return { bytes, collections: await collected() };
  };

  // Optimised code and its bookkeeping live on the same heap: let them come to rest first.
  const batches = Math.ceil(buffers / task.buffers);
  for (let i = 0; i < batches / CHUNKS; i++) task.batch();
  let chunk = Math.ceil(batches / CHUNKS);
  let own = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 3; i++) own = Math.min(own, (await grown(0)).bytes);

  let done = 0;
  let bytes = 0;
  let spoiled = 0;
  while (done < batches) {
    const n = Math.min(chunk, batches - done);
    const use = await grown(n);
    if (use.collections > 0 && chunk > 1 && spoiled < COLLECTIONS_MAX) {
      spoiled += use.collections;
      chunk = Math.ceil(chunk / 4);
      continue;
    }
    bytes += use.bytes - own;
    done += n;
  }
  observer.disconnect();
  // Less than nothing is noise of the measurement.
  return {
    bytes: Math.max(0, bytes) / (batches * task.buffers),
    buffers: batches * task.buffers,
    collections: spoiled,
  };
}
