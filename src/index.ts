export { type LoadOptions, loadEngine } from './load.js';
export * from './public.js';
