import { serve } from './harness/serve.js';
import type { TranslationOptions } from './lazy-translation/options.js';
import { OPERATIONS } from './lazy-translation/tasks.js';

serve(({ ring, params }) => {
  const options = { ...(params as unknown as TranslationOptions), ring };
  return OPERATIONS[options.operation](options);
});
