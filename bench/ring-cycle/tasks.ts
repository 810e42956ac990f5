import type { Task } from '../harness/serve.js';
import { bareLoop } from './bare-loop.js';
import { burstTask } from './burst.js';
import type { CycleOptions } from './options.js';
import { recordsTask } from './records.js';
import { singleTask } from './single.js';

/** The contenders. */
export const TASKS: Record<string, (options: CycleOptions) => Task | Promise<Task>> = {
  'wasm-burst': (options) => burstTask('wasm', options),
  'wasm-records': (options) => recordsTask('wasm', options),
  'wasm-single': (options) => singleTask('wasm', options),
  'typescript-burst': (options) => burstTask('typescript', options),
  'typescript-records': (options) => recordsTask('typescript', options),
  'typescript-single': (options) => singleTask('typescript', options),
  'bare-loop': bareLoop,
};
