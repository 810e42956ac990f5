import type { Params } from '../src/cli/report.js';
import { serve } from './harness/serve.js';
import type { CycleOptions } from './ring-cycle/options.js';
import { TASKS } from './ring-cycle/tasks.js';

serve((contender: string, params: Params) => TASKS[contender](params as unknown as CycleOptions));
