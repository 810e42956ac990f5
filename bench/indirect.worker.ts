import { serve } from './harness/serve.js';
import type { TableTaskOptions } from './indirect/options.js';
import { tableTask } from './indirect/task.js';

serve(({ ring, params }) => tableTask({ ...(params as unknown as TableTaskOptions), ring }));
