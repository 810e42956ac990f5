import type { Segment } from '../../src/index.js';
import { BATCH, type Task } from '../harness/serve.js';
import { type CycleOptions, outSegments, SEGMENT_BYTES, writtenBytes } from './options.js';
import { createQueues } from './queues.js';

/** One call per buffer and operation; one kick per burst. */
export async function singleTask(name: 'wasm' | 'typescript', options: CycleOptions): Promise<Task> {
  const { driver, device, buffers } = await createQueues(name, options);
  const { size, burst: count, segments } = options;
  const outs: Segment[][] = [];
  const ins: Segment[][] = [];
  for (let i = 0; i < size; i++) {
    const all: Segment[] = [];
    for (let s = 0; s < segments; s++)
      all.push({ address: buffers + (i * segments + s) * SEGMENT_BYTES, length: SEGMENT_BYTES });
    outs.push(all.slice(0, outSegments(segments)));
    ins.push(all.slice(outSegments(segments)));
  }
  const written = writtenBytes(segments);
  const cycles = Math.ceil(BATCH / count);
  // Kept between cycles. Within a function they are local variables: those of a closure live in memory.
  const kept = { next: 0, sum: 0 };

  // Driver and device in functions of their own, as in a real program; the compiler's budgets for inlining
  // are per function too.
  function add(): void {
    let { next } = kept;
    for (let i = 0; i < count; i++) {
      driver.add(outs[next], ins[next], next);
      next = (next + 1) & (size - 1);
    }
    kept.next = next;
    driver.kick();
  }

  function serve(): void {
    let { sum } = kept;
    for (let i = 0; i < count; i++) {
      const element = device.pop();
      if (element === undefined) throw new Error(`${i} of ${count} buffers arrived`);
      sum = (sum + element.id) | 0;
      for (let p = 0; p < element.out.length; p++)
        sum = (sum + element.out[p].address + element.out[p].length) | 0;
      for (let p = 0; p < element.in.length; p++)
        sum = (sum + element.in[p].address + element.in[p].length) | 0;
      device.push(element, written);
    }
    kept.sum = sum;
  }

  function collect(): void {
    let { sum } = kept;
    for (let i = 0; i < count; i++) {
      const completion = driver.getBuf();
      if (completion === undefined) throw new Error(`${i} of ${count} buffers came back`);
      sum = (sum + completion.token + completion.length) | 0;
    }
    kept.sum = sum;
  }

  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        add();
        serve();
        collect();
      }
    },
  };
}
