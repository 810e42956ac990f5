import { BATCH, type Task } from '../harness/serve.js';
import { type CycleOptions, outSegments, SEGMENT_BYTES, writtenBytes } from './options.js';
import { createQueues } from './queues.js';

/** Burst operations, with their records written and read through methods. */
export async function methodsTask(name: 'wasm' | 'typescript', options: CycleOptions): Promise<Task> {
  const { driver, device, buffers } = await createQueues(name, options);
  const { size, burst: count, segments } = options;
  const burst = driver.createBurst(count, count * segments);
  const elements = device.createElements(count, count * segments);
  const completions = driver.createCompletions(count);
  const outs = outSegments(segments);
  const written = writtenBytes(segments);
  const cycles = Math.ceil(BATCH / count);
  const bytes = segments * SEGMENT_BYTES;
  // Kept between cycles. Within a function they are local variables: those of a closure live in memory.
  const kept = { next: 0, sum: 0 };

  // Driver and device in functions of their own, as in a real program; the compiler's budgets for inlining
  // are per function too.
  function addOne(): void {
    let { next } = kept;
    for (let i = 0; i < count; i++) {
      burst.in(buffers + next * SEGMENT_BYTES, SEGMENT_BYTES).end(next);
      next = (next + 1) & (size - 1);
    }
    kept.next = next;
    driver.addBurst(burst);
    driver.kick();
  }

  function addChains(): void {
    let { next } = kept;
    for (let i = 0; i < count; i++) {
      let address = buffers + next * bytes;
      for (let s = 0; s < segments; s++) {
        if (s < outs) burst.out(address, SEGMENT_BYTES);
        else burst.in(address, SEGMENT_BYTES);
        address += SEGMENT_BYTES;
      }
      burst.end(next);
      next = (next + 1) & (size - 1);
    }
    kept.next = next;
    driver.addBurst(burst);
    driver.kick();
  }

  function serve(): void {
    let { sum } = kept;
    const popped = device.popBurst(elements);
    for (let i = 0; i < popped; i++) {
      sum = (sum + elements.id(i)) | 0;
      const first = elements.first(i);
      const end = first + elements.outCount(i) + elements.inCount(i);
      for (let p = first; p < end; p++) sum = (sum + elements.address(p) + elements.length(p)) | 0;
      elements.setWritten(i, written);
    }
    kept.sum = sum;
    device.pushBurst(elements);
  }

  function collect(): void {
    let { sum } = kept;
    const got = driver.getBurst(completions);
    for (let i = 0; i < got; i++) sum = (sum + completions.token(i) + completions.length(i)) | 0;
    if (got !== count) throw new Error(`${got} of ${count} buffers came back`);
    kept.sum = sum;
  }

  const add = segments === 1 ? addOne : addChains;
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
