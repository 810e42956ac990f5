import type { Params } from '../src/cli/report.js';
import { serve, type Task } from './harness/serve.js';
import { bareLoop } from './ring-cycle/bare-loop.js';
import { burstTask } from './ring-cycle/burst.js';
import type { CycleOptions } from './ring-cycle/options.js';
import { recordsTask } from './ring-cycle/records.js';
import { singleTask } from './ring-cycle/single.js';

const TASKS: Record<string, (options: CycleOptions) => Task | Promise<Task>> = {
  'wasm-burst': (options) => burstTask('wasm', options),
  'wasm-records': (options) => recordsTask('wasm', options),
  'wasm-single': (options) => singleTask('wasm', options),
  'typescript-burst': (options) => burstTask('typescript', options),
  'typescript-records': (options) => recordsTask('typescript', options),
  'typescript-single': (options) => singleTask('typescript', options),
  'bare-loop': bareLoop,
};

serve((contender: string, params: Params) => TASKS[contender](params as unknown as CycleOptions));
