import { serve } from './harness/serve.js';
import type { CycleParams } from './ring-cycle/options.js';
import { TASKS } from './ring-cycle/tasks.js';

serve(({ contender, ring, params }) => TASKS[contender]({ ...(params as unknown as CycleParams), ring }));
