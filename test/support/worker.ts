import { Worker, type WorkerOptions } from 'node:worker_threads';

/** Starts a TypeScript module in a Worker, which does not inherit the loader of the main thread. */
export function startWorker(module: URL, options: WorkerOptions = {}): Worker {
  const code = `import('tsx/esm/api').then(({ register }) => { register(); return import(${JSON.stringify(module.href)}); });`;
  return new Worker(code, { ...options, eval: true });
}
