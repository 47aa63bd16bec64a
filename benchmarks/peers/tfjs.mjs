// The workloads in TensorFlow.js, in Node: node tfjs.mjs wasm|cpu
// The requests and answers are those of serve.py. `make peers` installs the packages.
// TensorFlow.js always has one thread, because its threaded build is for browsers.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import path from 'node:path';

const require = createRequire(import.meta.url);
const [backend = 'wasm'] = process.argv.slice(2);
const answer = (value) => process.stdout.write(JSON.stringify(value) + '\n');
console.log = console.info = console.warn = console.error;  // the output of libraries must not mix with answers
const tf = require('@tensorflow/tfjs');

if (backend === 'wasm') {
  const wasm = require('@tensorflow/tfjs-backend-wasm');
  wasm.setWasmPaths(path.dirname(require.resolve('@tensorflow/tfjs-backend-wasm/package.json')) + '/dist/');
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
}
if (!await tf.setBackend(backend)) {  // otherwise it silently uses another backend
  throw new Error(`TensorFlow.js does not open its backend ${backend}`);
}

// --- the workloads: each returns a case, a function of no arguments ----------------

const gelu = (x) => tf.mul(tf.mul(x, .5), tf.add(tf.tanh(
  tf.mul(tf.add(x, tf.mul(tf.mul(tf.mul(x, x), x), .044715)), .7978845608)), 1));

function layerNorm(x, scale, offset) {
  const c = tf.sub(x, tf.mean(x, -1, true));
  const variance = tf.mean(tf.square(c), -1, true);
  return tf.add(tf.mul(tf.mul(c, tf.rsqrt(tf.add(variance, 1e-5))), scale), offset);
}

function mlp(w, x) {
  let h = tf.relu(tf.add(tf.matMul(x, w[0]), w[1]));
  h = tf.relu(tf.add(tf.matMul(h, w[2]), w[3]));
  return tf.add(tf.matMul(h, w[4]), w[5]);
}

function cnn(w, x) {
  let h = tf.maxPool(tf.relu(tf.add(tf.conv2d(x, w[0], 1, 'same'), w[1])), 2, 2, 'valid');
  h = tf.maxPool(tf.relu(tf.add(tf.conv2d(h, w[2], 1, 'same'), w[3])), 2, 2, 'valid');
  return tf.add(tf.matMul(tf.reshape(h, [h.shape[0], -1]), w[4]), w[5]);
}

function training(model) {
  return ({ x, labels, ...weights }) => {
    const w = Object.values(weights).map((v) => tf.variable(v));
    const targets = tf.oneHot(labels, 10), optimizer = tf.train.sgd(.01);
    return () => {
      optimizer.minimize(() => tf.losses.softmaxCrossEntropy(targets, model(w, x)), false, w);
      return w;
    };
  };
}

function mobilenet({ layers, x: image, ...weights }) {
  return () => {
    let x = image, skip;
    layers.forEach(({ kind, stride, relu6, skip: shortcut }, i) => {
      const filter = weights[`w${i}`], bias = weights[`b${i}`];
      if (kind === 'dense') {
        x = tf.add(tf.matMul(tf.mean(x, [1, 2]), filter), bias);
        return;
      }
      if (shortcut === 'from') skip = x;
      const convolve = kind === 'depthwise' ? tf.fused.depthwiseConv2d : tf.fused.conv2d;
      x = convolve({ x, filter, bias, strides: stride, pad: 'same', activation: relu6 ? 'relu6' : 'linear' });
      if (shortcut === 'to') x = tf.add(x, skip);
    });
    return x;
  };
}

function transformer({ x: input, ...weights }) {
  const names = Object.keys(weights), [n, length, d] = input.shape;
  const dense = (x, w) => tf.reshape(tf.matMul(tf.reshape(x, [n * length, -1]), w), [n, length, w.shape[1]]);
  const split = (x) => tf.transpose(tf.reshape(x, [n, length, 4, d / 4]), [0, 2, 1, 3]);
  const gradients = tf.grads((...values) => {
    const p = Object.fromEntries(names.map((name, i) => [name, values[i]]));
    let h = layerNorm(input, p.g1, p.b1);
    const [q, k, v] = [p.wq, p.wk, p.wv].map((w) => split(dense(h, w)));
    const scores = tf.softmax(tf.mul(tf.matMul(q, k, false, true), (d / 4) ** -.5));
    const mixed = tf.reshape(tf.transpose(tf.matMul(scores, v), [0, 2, 1, 3]), [n, length, d]);
    let x = tf.add(input, dense(mixed, p.wo));
    h = layerNorm(x, p.g2, p.b2);
    x = tf.add(tf.add(x, dense(gelu(tf.add(dense(h, p.w1), p.c1)), p.w2)), p.c2);
    return tf.mean(tf.square(x));
  });
  return () => gradients(Object.values(weights));
}

function customGrad({ x }) {
  const square = tf.customGrad((x, save) => {
    save([x]);
    return { value: tf.mul(x, x), gradFunc: (dy, [x]) => tf.mul(tf.mul(dy, 2), x) };
  });
  const both = tf.valueAndGrad((x) => tf.sum(square(x)));
  return () => { const { value, grad } = both(x); return [value, grad]; };
}

function gradSmall({ x }) {
  const gradient = tf.grad((x) => tf.sum(tf.tanh(tf.add(tf.mul(x, x), x))));
  return () => gradient(x);
}

const add = ({ a, b }) => () => tf.add(a, b);
const matMul = ({ a, b }) => () => tf.matMul(a, b);
const conv = ({ x, w }) => () => tf.conv2d(x, w, 1, 'same');
const cases = {
  add_8: add,
  grad_small: gradSmall,
  custom_grad: customGrad,
  exp_1m: ({ x }) => () => tf.exp(x),
  gelu_1m: ({ x }) => () => gelu(x),
  add_bcast: add,
  sum_rows: ({ x }) => () => tf.sum(x, 1),
  sum_cols: ({ x }) => () => tf.sum(x, 0),
  softmax: ({ x }) => () => tf.softmax(x),
  layernorm: ({ x, scale, offset }) => () => layerNorm(x, scale, offset),
  matmul_512: matMul,
  matmul_1024: matMul,
  bmm: matMul,
  conv3x3: conv,
  conv1x1: conv,
  dwconv3x3: ({ x, w }) => () => tf.depthwiseConv2d(x, w, 1, 'same'),
  maxpool: ({ x }) => () => tf.maxPool(x, 2, 2, 'valid'),
  transpose: ({ x }) => () => tf.transpose(x, [2, 0, 1]),
  concat: ({ a, b, c, d }) => () => tf.concat([a, b, c, d], 2),
  gather: ({ x, indices }) => () => tf.gather(x, indices),
  mlp_train: training(mlp),
  cnn_train: training(cnn),
  mobilenet_v2: mobilenet,
  tiny_transformer: transformer,
  transformer,
};

// --- answering --------------------------------------------------------------------

function read(folder) {
  const { inputs, layers } = JSON.parse(readFileSync(path.join(folder, 'inputs.json'), 'utf8'));
  const { buffer } = new Uint8Array(readFileSync(path.join(folder, 'inputs.bin')));
  const found = layers ? { layers } : {};
  let offset = 0;
  for (const [key, dtype, shape] of inputs) {
    const count = shape.reduce((n, m) => n * m, 1);
    const values = new (dtype === 'int32' ? Int32Array : Float32Array)(buffer, offset, count);
    found[key] = tf.tensor(values, shape, dtype);
    offset += values.byteLength;
  }
  return found;
}

let current = () => null;

function call() {  // with tidy, as users need it to avoid leaks
  tf.dispose(tf.tidy(current));
}

async function load(name, folder) {
  current = () => null;
  tf.disposeVariables();
  if (!(name in cases)) return { missing: true };
  const made = cases[name](read(folder));
  const result = tf.tidy(made);
  const parts = Array.isArray(result) ? result : [result];
  const bytes = await Promise.all(parts.map(async (x) => Buffer.from(new Float32Array(await x.data()).buffer)));
  writeFileSync(path.join(folder, 'result.bin'), Buffer.concat(bytes));
  // A training step returns the weights, which must not be disposed.
  current = parts[0] instanceof tf.Variable ? () => { made(); return null; } : made;
  return {};
}

const clocks = {
  wall: () => Number(process.hrtime.bigint()) / 1e9,
  cpu: () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e6; },
};

function measure(count, now) {
  const start = now();
  for (let i = 0; i < count; i++) call();
  return (now() - start) / count;
}

function time(seconds, warm, calls, now) {
  let once = measure(1, now);
  const end = clocks.wall() + warm;
  while (clocks.wall() < end) once = measure(1, now);
  if (once < seconds) once = measure(1, now);
  const count = Math.max(calls, Math.floor(seconds / Math.max(once, 1e-6)));
  return { us: (count > 1 ? measure(count, now) : once) * 1e6 };
}

const timed = ({ time: seconds, warm, calls, clock }) => time(seconds, warm, calls, clocks[clock]);
const versions = { '@tensorflow/tfjs': tf.version.tfjs, node: process.version };
answer({ versions });
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  try {
    answer(request.load ? await load(request.load, request.folder) : timed(request));
  } catch (error) {
    answer({ error: String(error.message).slice(0, 300) });
  }
}
