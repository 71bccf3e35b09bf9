import { render } from 'preact';
import { App } from './app';
import './style.css';

const page = document.getElementById('page');
if (page) render(<App />, page);
