import { Burst } from '../../src/queue/burst.js';
import { BATCH, type Task } from '../harness/serve.js';
import { type CycleOptions, outSegments, SEGMENT_BYTES, writtenBytes } from './options.js';
import { createQueues } from './queues.js';

const NEXT = 1;
const WRITE = 2;

/** Burst operations, with their records written and read as words: the fastest way to use a queue. */
export async function burstTask(name: 'wasm' | 'typescript', options: CycleOptions): Promise<Task> {
  const { driver, device, buffers } = await createQueues(name, options);
  const { size, burst: count, segments } = options;
  const burst = driver.createBurst(count, count * segments);
  const elements = device.createElements(count, count * segments);
  const completions = driver.createCompletions(count);
  const written = writtenBytes(segments);
  const cycles = Math.ceil(BATCH / count);
  const bytes = segments * SEGMENT_BYTES;
  const outs = outSegments(segments);
  // Kept between cycles. Within a function they are local variables: those of a closure live in memory.
  const kept = { next: 0, sum: 0 };

  // Driver and device in functions of their own, as in a real program; the compiler's budgets for inlining
  // are per function too.
  function addOne(): void {
    let { next } = kept;
    const { words, tokens } = burst;
    for (let i = 0; i < count; i++) {
      const at = i * 4;
      words[at] = buffers + next * SEGMENT_BYTES;
      words[at + 1] = 0;
      words[at + 2] = SEGMENT_BYTES;
      words[at + 3] = Burst.IN;
      tokens[i] = next;
      next = (next + 1) & (size - 1);
    }
    kept.next = next;
    burst.commit(count);
    driver.addBurst(burst);
    driver.kick();
  }

  function addChains(): void {
    let { next } = kept;
    const { words, tokens } = burst;
    let at = 0;
    for (let i = 0; i < count; i++) {
      const first = at;
      let address = buffers + next * bytes;
      for (let s = 0; s < segments; s++) {
        words[at] = address;
        words[at + 1] = 0;
        words[at + 2] = SEGMENT_BYTES;
        words[at + 3] = s < outs ? NEXT : NEXT | WRITE;
        at += 4;
        address += SEGMENT_BYTES;
      }
      words[at - 1] = WRITE;
      words[first + 3] |= segments << 16;
      tokens[i] = next;
      next = (next + 1) & (size - 1);
    }
    kept.next = next;
    burst.commit(count);
    driver.addBurst(burst);
    driver.kick();
  }

  function serve(): void {
    let { sum } = kept;
    const popped = device.popBurst(elements);
    const { words: records, pieceWords } = elements;
    for (let i = 0; i < popped; i++) {
      const element = i * 4;
      sum = (sum + records[element]) | 0;
      const first = records[element + 1];
      const counts = records[element + 2];
      const end = first + (counts & 0xffff) + (counts >>> 16);
      for (let p = first; p < end; p++) sum = (sum + pieceWords[p * 2] + pieceWords[p * 2 + 1]) | 0;
      records[element + 3] = written;
    }
    kept.sum = sum;
    device.pushBurst(elements);
  }

  function collect(): void {
    let { sum } = kept;
    const got = driver.getBurst(completions);
    const done = completions.words;
    for (let i = 0; i < got; i++) sum = (sum + done[i * 2] + done[i * 2 + 1]) | 0;
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
