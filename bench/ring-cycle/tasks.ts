import type { Task } from '../harness/serve.js';
import { bareLoop } from './bare-loop.js';
import { burstTask } from './burst.js';
import { methodsTask } from './methods.js';
import type { CycleOptions } from './options.js';
import { singleTask } from './single.js';

/** The contenders. */
export const TASKS: Record<string, (options: CycleOptions) => Task | Promise<Task>> = {
  'wasm-methods': (options) => methodsTask('wasm', options),
  'wasm-burst': (options) => burstTask('wasm', options),
  'wasm-single': (options) => singleTask('wasm', options),
  'typescript-methods': (options) => methodsTask('typescript', options),
  'typescript-burst': (options) => burstTask('typescript', options),
  'typescript-single': (options) => singleTask('typescript', options),
  'bare-loop': bareLoop,
};
